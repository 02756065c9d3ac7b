// The start of a Newton-Schulz iteration of a [b, h, m, m], one block per matrix: the largest sum u of magnitudes of a row and
// the steps that follow (bound [b, h, 2]), the start that MODE asks for (x0 [b, h, s, s]), and A with rows and columns of zeros
// appended where the products want another side (a_padded, like x0). Coefficients are each matrix's own: a maximum over the batch
// would let one hard head slow or spoil the others.
extern "C" __global__ void __launch_bounds__(THREADS) newton_schulz_start(
    Params params, const float* __restrict__ a, float* __restrict__ a_padded, float* __restrict__ x0, float* __restrict__ bound) {
  constexpr bool TRANSPOSED = MODE == 3u || MODE == 4u;
  constexpr u32 WARPS = THREADS / WARP;
  const u32 m = params.m;
  const u32 s = params.s;
  const u32 lane = threadIdx.x % WARP;
  const u32 warp = threadIdx.x / WARP;
  const float* const matrix = a + size_t(blockIdx.x) * m * m;
  float row_max = 0.0f;
  float bare_max = 0.0f; // the same for W = A - epsilon I
  for (u32 i = warp; i < m; i += WARPS) {
    float sum = 0.0f;
    for (u32 k = lane; k < m; k += WARP) { sum += fabsf(matrix[size_t(i) * m + k]); }
    sum = warp_sum(sum);
    const float diagonal = matrix[size_t(i) * m + i];
    row_max = fmaxf(row_max, sum);
    bare_max = fmaxf(bare_max, sum - fabsf(diagonal) + fabsf(diagonal - params.epsilon));
  }
  const float u = block_max<THREADS>(row_max);
  float factor = 2.0f / (u + params.epsilon);
  if (MODE == 1u) {
    const float bare = block_max<THREADS>(bare_max);
    factor = 1.8f / (bare * bare);
  }
  if (MODE == 2u) { factor = 1.8f / (u * u); }
  if (TRANSPOSED) {
    float col_max = 0.0f;
    for (u32 col = threadIdx.x; col < m; col += THREADS) {
      float sum = 0.0f;
      for (u32 k = 0u; k < m; k++) { sum += fabsf(matrix[size_t(k) * m + col]); }
      col_max = fmaxf(col_max, sum);
    }
    factor = 1.0f / (u * block_max<THREADS>(col_max));
  }
  if (MODE == 5u) { factor = 1.0f / u; }

  const size_t to = size_t(blockIdx.x) * s * s;
  for (u32 i = warp; i < s; i += WARPS) {
    for (u32 j = lane; j < s; j += WARP) {
      const bool inside = i < m && j < m;
      const size_t at = to + size_t(i) * s + j;
      if (MODE == 0u || MODE == 5u) {
        x0[at] = i == j && inside ? factor : 0.0f;
      } else {
        x0[at] = inside ? factor * matrix[TRANSPOSED ? size_t(j) * m + i : size_t(i) * m + j] : 0.0f;
      }
      if (HAS_A_PADDED) { a_padded[at] = inside ? matrix[size_t(i) * m + j] : 0.0f; }
    }
  }
  if (threadIdx.x == 0u) {
    bound[2u * size_t(blockIdx.x)] = u;
    bound[2u * size_t(blockIdx.x) + 1u] = float(params.steps);
  }
}
