// Ten chains of multiply-adds, whose addends are one texel of four words a round: seven steps of each. x [b, h, m], out [b, h,
// n].
constexpr u32 CHAINS = 10u;

__device__ inline float4 texel(const float* __restrict__ words, u32 at) {
  if (VECTORS) { return reinterpret_cast<const float4*>(words)[at]; }
  return make_float4(words[4u * at], words[4u * at + 1u], words[4u * at + 2u], words[4u * at + 3u]);
}

extern "C" __global__ void __launch_bounds__(THREADS) probe_overlap(
    Params params, const float* __restrict__ x, float* __restrict__ out) {
  const u32 blocks = divided_up(params.n, THREADS);
  const u32 head = blockIdx.x / blocks;
  const u32 place = blockIdx.x % blocks * THREADS + threadIdx.x;
  const float* const words = x + size_t(head) * params.m;
  float s[CHAINS];
#pragma unroll
  for (u32 c = 0u; c < CHAINS; c++) { s[c] = float(c); }
  for (u32 round = 0u; round < ROUNDS; round++) {
    const float4 a = texel(words, (place + round) % TEXELS);
    const float addend[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (u32 step = 0u; step < 7u; step++) {
#pragma unroll
      for (u32 c = 0u; c < CHAINS; c++) { s[c] = s[c] * 0.5f + addend[c % 4u]; }
    }
  }
  if (place < params.n) {
    out[size_t(head) * params.n + place] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])) + (s[8] + s[9]);
  }
}
