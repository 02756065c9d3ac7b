// Sixteen words per thread from anywhere in a power of two of them: x [b, h, m], out [b, h, n].

// A place that looks random: neighbours read words that are far apart.
__device__ inline u32 scattered(u32 number) {
  u32 z = (number ^ (number >> 16)) * 0x7feb352du;
  z = (z ^ (z >> 15)) * 0x846ca68bu;
  return z ^ (z >> 16);
}

extern "C" __global__ void __launch_bounds__(THREADS) probe_gather(
    Params params, const float* __restrict__ x, float* __restrict__ out) {
  const u32 blocks = divided_up(params.n, THREADS);
  const u32 head = blockIdx.x / blocks;
  const u32 place = blockIdx.x % blocks * THREADS + threadIdx.x;
  if (place >= params.n) { return; }
  const float* const words = x + size_t(head) * params.m;
  const u32 last = params.m - 1u;
  float sum = 0.0f;
#pragma unroll
  for (u32 round = 0u; round < ROUNDS; round++) {
    const u32 number = 4u * (ROUNDS * place + round);
    sum += (words[scattered(number) & last] + words[scattered(number + 1u) & last])
      + (words[scattered(number + 2u) & last] + words[scattered(number + 3u) & last]);
  }
  out[size_t(head) * params.n + place] = sum;
}
