// out[c] = alpha factor sum over chunks of x[chunk, c], in the order of the chunks: x [b, h, c, m], factor [b, h, 1], out [b, h,
// m]. One thread per column.
extern "C" __global__ void __launch_bounds__(THREADS) sum_chunks(
    Params params, const float* __restrict__ x, const float* __restrict__ factor, float* __restrict__ out) {
  const u32 blocks = divided_up(params.m, THREADS);
  const u32 head = blockIdx.x / blocks;
  const u32 col = blockIdx.x % blocks * THREADS + threadIdx.x;
  if (col >= params.m) { return; }
  const float* const column = x + size_t(head) * params.c * params.m + col;
  float sum = 0.0f;
#pragma unroll 8
  for (u32 chunk = 0u; chunk < params.c; chunk++) { sum += column[size_t(chunk) * params.m]; }
  sum *= params.alpha;
  if (HAS_FACTOR) { sum *= factor[head]; }
  out[size_t(head) * params.m + col] = sum;
}
