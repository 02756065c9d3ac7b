// A thread walks over TEXELS texels of four words from its own number on, and adds up what it reads: x [b, h, m], out [b, h, n].
// They come from the nearest cache, as vectors or as words that lie TEXELS apart, or, STAGED, from shared memory, as words.
__device__ inline float4 texel(const float* __restrict__ words, u32 at) {
  if (VECTORS) { return reinterpret_cast<const float4*>(words)[at]; }
  return make_float4(words[at], words[at + TEXELS], words[at + 2u * TEXELS], words[at + 3u * TEXELS]);
}

__device__ inline float walk(const float* __restrict__ words, u32 place) {
  float4 sum = {};
  for (u32 round = 0u; round < ROUNDS; round++) {
#pragma unroll
    for (u32 k = 0u; k < 8u; k++) { sum = sum + texel(words, (place + 8u * round + k) % TEXELS); }
  }
  return sum_of(sum);
}

extern "C" __global__ void __launch_bounds__(THREADS) probe_load(
    Params params, const float* __restrict__ x, float* __restrict__ out) {
  __shared__ float staged[STAGED ? 4u * TEXELS : 1u];
  const u32 blocks = divided_up(params.n, THREADS);
  const u32 head = blockIdx.x / blocks;
  const u32 place = blockIdx.x % blocks * THREADS + threadIdx.x;
  const float* const words = x + size_t(head) * params.m;
  float sum;
  if (STAGED) {
    for (u32 at = threadIdx.x; at < 4u * TEXELS; at += THREADS) { staged[at] = words[at]; }
    __syncthreads(); // all words are there
    sum = walk(staged, place);
  } else {
    sum = walk(words, place);
  }
  if (place < params.n) { out[size_t(head) * params.n + place] = sum; }
}
