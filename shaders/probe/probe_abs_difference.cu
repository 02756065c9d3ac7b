// Eight independent chains s <- height - |s - centre| per thread in registers, sixteen steps a round. x, out [b, h, n].
constexpr u32 CHAINS = 8u;

extern "C" __global__ void __launch_bounds__(THREADS) probe_abs_difference(
    Params params, const float* __restrict__ x, float* __restrict__ out) {
  const size_t at = size_t(blockIdx.x) * THREADS + threadIdx.x;
  if (at >= size_t(params.b) * params.h * params.n) { return; }
  float s[CHAINS];
#pragma unroll
  for (u32 c = 0u; c < CHAINS; c++) { s[c] = x[at] + 0.125f * float(c); }
  for (u32 round = 0u; round < params.rounds; round++) {
#pragma unroll
    for (u32 step = 0u; step < 16u; step++) {
#pragma unroll
      for (u32 c = 0u; c < CHAINS; c++) { s[c] = params.height - fabsf(s[c] - params.centre); }
    }
  }
  out[at] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}
