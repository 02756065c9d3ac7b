// out[head] = Frobenius norm of I - P over the leading `size` rows and columns of p [b, h, m, m]; out [b, h, 1]. One block per
// matrix; a row's words by the lanes of a warp.
extern "C" __global__ void __launch_bounds__(THREADS) identity_distance(
    Params params, const float* __restrict__ p, float* __restrict__ out) {
  const float* const matrix = p + size_t(blockIdx.x) * params.m * params.m;
  float sum = 0.0f;
  for (u32 row = threadIdx.x / WARP; row < params.size; row += THREADS / WARP) {
    for (u32 col = threadIdx.x % WARP; col < params.size; col += WARP) {
      const float miss = matrix[size_t(row) * params.m + col] - (row == col ? 1.0f : 0.0f);
      sum += miss * miss;
    }
  }
  const float all = block_sum<THREADS>(sum);
  if (threadIdx.x == 0u) { out[blockIdx.x] = sqrtf(all); }
}
