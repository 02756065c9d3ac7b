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
  const Item item = item_of(params.rows, params.cols * params.c);
  if (!item.there) { return; }
  const u32 row = item.row;
  const u32 col = item.col / params.c;
  const size_t node = size_t(row) * params.cols + col;
  const float* channel = cur + size_t(item.head) * params.rows * params.cols * params.c + item.col % params.c;
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
  if (HAS_PREV) { value = 2.0f * value - prev[item.at]; }
  if (params.term == 0u) { value = here; }
  if (HAS_NEXT) { next[item.at] = value; }
  // Where no sum was handed over it begins with the term before, if there is one.
  float sum = 0.0f;
  if (HAS_SUM_IN) {
    sum = sum_in[item.at];
  } else if (params.term != 0u) {
    sum = coefficients[params.term - 1u] * here;
  }
  sum_out[item.at] = sum + coefficients[params.term] * value;
}
