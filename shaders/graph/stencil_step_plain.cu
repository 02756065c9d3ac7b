// A step of the Chebyshev recurrence on a grid as in stencil_step.cu, one thread per number: any number of channels.

// The number of a neighbour times the weight of its edge, 0 outside the grid. `down` and `along` are one more than the rows and
// columns by which the slot leads away, so that nothing is negative.
__device__ inline float edge(
    const Params& params, const float* cur, const float* w, size_t node, u32 slot, u32 row, u32 col, u32 down, u32 along) {
  const bool inside = row + down >= 1u && row + down <= params.rows && col + along >= 1u && col + along <= params.cols;
  if (TORUS == 0u && !inside) { return 0.0f; }
  const u32 other_row = (row + down + params.rows - 1u) % params.rows;
  const u32 other_col = (col + along + params.cols - 1u) % params.cols;
  const float weight = HAS_W ? w[node * NEIGHBOURS + slot] : params.edge;
  return weight * cur[(size_t(other_row) * params.cols + other_col) * params.c];
}

extern "C" __global__ void __launch_bounds__(THREADS) stencil_step(
    Params params, const float* __restrict__ cur, const float* __restrict__ prev, const float* __restrict__ sum_in,
    const float* __restrict__ w, const float* __restrict__ diagonal, const float* __restrict__ coefficients,
    float* __restrict__ next, float* __restrict__ sum_out) {
  const size_t size = size_t(params.rows) * params.cols * params.c;
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 batch = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= size) { return; }
  const size_t node = item / params.c;
  const u32 row = u32(node / params.cols);
  const u32 col = u32(node % params.cols);
  const float* channel = cur + batch * size + item % params.c;
  const float here = channel[node * params.c];
  float value = (HAS_DIAGONAL ? diagonal[node] : params.centre) * here;
  value += edge(params, channel, w, node, 0u, row, col, 1u, 0u);
  value += edge(params, channel, w, node, 1u, row, col, 1u, 2u);
  value += edge(params, channel, w, node, 2u, row, col, 0u, 1u);
  value += edge(params, channel, w, node, 3u, row, col, 2u, 1u);
  if (NEIGHBOURS == 8u) {
    value += edge(params, channel, w, node, 4u, row, col, 0u, 0u);
    value += edge(params, channel, w, node, 5u, row, col, 0u, 2u);
    value += edge(params, channel, w, node, 6u, row, col, 2u, 0u);
    value += edge(params, channel, w, node, 7u, row, col, 2u, 2u);
  }
  const size_t at = batch * size + item;
  if (HAS_PREV) { value = 2.0f * value - prev[at]; }
  if (params.term == 0u) { value = here; }
  if (HAS_NEXT) { next[at] = value; }
  // Where no sum was handed over it begins with the term before, if there is one.
  float sum = 0.0f;
  if (HAS_SUM_IN) {
    sum = sum_in[at];
  } else if (params.term != 0u) {
    sum = coefficients[params.term - 1u] * here;
  }
  sum_out[at] = sum + coefficients[params.term] * value;
}
