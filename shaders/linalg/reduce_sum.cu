// out[row] = sum of x[row, 0..n]. One block per row: four chains per thread, which round less and do not wait for each other, then sums
// over warps.
extern "C" __global__ void __launch_bounds__(THREADS) reduce_sum(
    Params params, const float* __restrict__ x, float* __restrict__ out) {
  const float* row = x + size_t(blockIdx.x) * params.n;
  float sums[4] = {};
  for (u32 i = threadIdx.x; i < params.n; i += 4u * THREADS) {
    for (u32 chain = 0u; chain < 4u; chain++) {
      const u32 at = i + chain * THREADS;
      if (at < params.n) { sums[chain] += row[at]; }
    }
  }
  const float all = block_sum<THREADS>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  if (threadIdx.x == 0u) { out[blockIdx.x] = all; }
}
