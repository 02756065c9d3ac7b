// Accepts an iterate whose residual |I - A X|_F is at most 1e-2, and otherwise inverts A by Cholesky, in place in the output;
// where a pivot is not positive or the result is no better, once more with ten times epsilon on the diagonal. a, x [b, h, m, m];
// iterate [b, h, s, s], of which the leading part counts; residual [b, h, 1]; bound [b, h, 2]; status [b, h, 4]: residual, bound,
// and the code 0 iterate, 1 inverse, 2 inverse of the shifted matrix, 3 nothing acceptable, and the iterate kept.
//
// One block per matrix. As a rule it only copies; what it does where it is needed is right before it is quick: rows by the lanes
// of a warp.
constexpr u32 WARPS = THREADS / WARP;

// NaN is neither.
__device__ inline bool acceptable(float x) { return x <= 0.01f; }
__device__ inline bool positive(float x) { return x > 0.0f && x <= 3.402823466e38f; }

// Scalar product of two stretches of the output by a warp, in all its lanes.
__device__ inline float product_by_warp(const float* left, const float* right, u32 count) {
  float sum = 0.0f;
  for (u32 k = threadIdx.x % WARP; k < count; k += WARP) { sum += left[k] * right[k]; }
  return warp_sum(sum);
}

extern "C" __global__ void __launch_bounds__(THREADS) inverse_fallback(
    Params params, const float* __restrict__ a, const float* __restrict__ iterate, const float* __restrict__ residual,
    const float* __restrict__ bound, float* __restrict__ x, float* __restrict__ status) {
  __shared__ float column[MOST_ROWS];
  const u32 m = params.m;
  const u32 lane = threadIdx.x % WARP;
  const u32 warp = threadIdx.x / WARP;
  const float* const matrix = a + size_t(blockIdx.x) * m * m;
  float* const to = x + size_t(blockIdx.x) * m * m;
  float measured = residual[blockIdx.x];
  u32 code = acceptable(measured) ? 0u : 3u;

  // All threads of a block know the same code and the same pivots, so they meet the same barriers.
  for (u32 attempt = 0u; FALLBACK != 0u && attempt < 2u && code == 3u; attempt++) {
    const float shift = attempt == 1u ? 9.0f * params.epsilon : 0.0f;
    for (u32 i = warp; i < m; i += WARPS) {
      for (u32 j = lane; j < m; j += WARP) { to[i * m + j] = matrix[i * m + j] + (i == j ? shift : 0.0f); }
    }
    bool sound = true;
    // L into the lower triangle, one column after the other.
    for (u32 k = 0u; k < m; k++) {
      __syncthreads(); // the updates of the columns before are written, and `column` has been read
      const float pivot = to[k * m + k];
      sound = sound && positive(pivot);
      const float root = sqrtf(positive(pivot) ? pivot : 1.0f);
      for (u32 i = k + 1u + threadIdx.x; i < m; i += THREADS) { column[i] = to[i * m + k] / root; }
      __syncthreads(); // column k is scaled, and everyone has read its pivot
      if (threadIdx.x == 0u) { to[k * m + k] = root; }
      for (u32 i = k + 1u + warp; i < m; i += WARPS) {
        if (lane == 0u) { to[i * m + k] = column[i]; }
        for (u32 j = k + 1u + lane; j <= i; j += WARP) { to[i * m + j] -= column[i] * column[j]; }
      }
    }
    __syncthreads(); // L is complete
    // Its inverse, transposed, into the upper triangle: column j by one warp, which reads only L and its own row.
    for (u32 j = warp; j < m; j += WARPS) {
      float* const row = to + j * m;
      const float head = 1.0f / row[j];
      for (u32 i = j + 1u; i < m; i++) {
        const float* const line = to + i * m;
        const float sum = line[j] * head + product_by_warp(line + j + 1u, row + j + 1u, i - j - 1u);
        if (lane == 0u) { row[i] = -sum / line[i]; }
        __syncwarp(); // the next sum takes it in
      }
    }
    __syncthreads(); // L is needed no more
    for (u32 i = threadIdx.x; i < m; i += THREADS) { to[i * m + i] = 1.0f / to[i * m + i]; }
    __syncthreads(); // the upper triangle with its diagonal is complete
    // Inverse = (inverse of L) transposed times itself: the lower triangle from the upper one.
    for (u32 i = warp; i < m; i += WARPS) {
      for (u32 j = 0u; j < i; j++) {
        const float sum = product_by_warp(to + i * m + i, to + j * m + i, m - i);
        if (lane == 0u) { to[i * m + j] = sum; }
      }
    }
    __syncthreads(); // nobody reads another row's diagonal any more
    for (u32 i = warp; i < m; i += WARPS) {
      float* const diagonal = to + i * m + i;
      const float sum = product_by_warp(diagonal, diagonal, m - i);
      if (lane == 0u) { *diagonal = sum; }
    }
    __syncthreads(); // the lower triangle is complete
    for (u32 i = warp; i < m; i += WARPS) {
      for (u32 j = i + 1u + lane; j < m; j += WARP) { to[i * m + j] = to[j * m + i]; }
    }
    __syncthreads(); // so is the inverse
    float sum = 0.0f;
    for (u32 i = warp; i < m; i += WARPS) {
      for (u32 j = lane; j < m; j += WARP) {
        float y = shift * to[i * m + j];
#pragma unroll 4
        for (u32 k = 0u; k < m; k++) { y += matrix[i * m + k] * to[k * m + j]; }
        const float miss = (i == j ? 1.0f : 0.0f) - y;
        sum += miss * miss;
      }
    }
    const float again = sqrtf(block_sum<THREADS>(sum));
    if (sound && acceptable(again)) {
      code = attempt + 1u;
      measured = again;
    }
  }
  if (code == 0u || code == 3u) {
    const float* const given = iterate + size_t(blockIdx.x) * params.s * params.s;
    for (u32 i = warp; i < m; i += WARPS) {
      for (u32 j = lane; j < m; j += WARP) { to[size_t(i) * m + j] = given[size_t(i) * params.s + j]; }
    }
  }
  if (threadIdx.x == 0u) {
    float* const report = status + 4u * size_t(blockIdx.x);
    report[0] = measured;
    report[1] = bound[2u * size_t(blockIdx.x)];
    report[2] = bound[2u * size_t(blockIdx.x) + 1u];
    report[3] = float(code);
  }
}
