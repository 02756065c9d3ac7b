// out[i] = sum over c of x[i, c] y[i, c] (y = 1 where it is left out), or 1 / sqrt(max(that, 0) + offset): x, y [b, h, n, m], out
// [b, h, n]. LANES neighbouring threads take a row: a warp's share of memory is one piece also where rows are short.
extern "C" __global__ void __launch_bounds__(THREADS) row_dot(
    Params params, const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out) {
  constexpr u32 ROWS = THREADS / LANES;
  const u32 lane = threadIdx.x % LANES;
  const size_t row = size_t(blockIdx.x) * ROWS + threadIdx.x / LANES;
  const bool inside = row < size_t(params.b) * params.h * params.n;
  float sum = 0.0f;
  if (inside) {
    for (u32 c = lane; c < params.m; c += LANES) {
      const size_t at = row * params.m + c;
      sum += HAS_Y ? x[at] * y[at] : x[at];
    }
  }
  for (u32 apart = LANES / 2u; apart > 0u; apart /= 2u) { sum += __shfl_xor_sync(ALL_LANES, sum, apart); }
  if (inside && lane == 0u) { out[row] = INVERSE_SQRT != 0u ? 1.0f / sqrtf(fmaxf(sum, 0.0f) + params.offset) : sum; }
}
