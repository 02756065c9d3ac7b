// A step of the Chebyshev recurrence on a grid: next = 2 S cur - prev (S cur without prev, cur itself for term 0), sum_out =
// sum_in + coefficient next, S the weighted four or eight neighbours and the node itself. All [b, h, rows, cols, c], w [rows,
// cols, e]. A thread takes four channels of LINES nodes of a grid row and keeps the 3 x 3 nodes around the current one in
// registers, so that a node costs three vectors of cur, two of which a neighbouring row brings to the cache. Outside the grid a
// node's own row or column stands in, with weight 0.
extern "C" __global__ void __launch_bounds__(THREADS) stencil_step(
    Params params, const float* __restrict__ cur, const float* __restrict__ prev, const float* __restrict__ sum_in,
    const float* __restrict__ w, const float* __restrict__ diagonal, const float* __restrict__ coefficients,
    float* __restrict__ next, float* __restrict__ sum_out) {
  constexpr u32 LINES = 8u;
  const u32 quads = params.c / 4u;
  const u32 tiles = divided_up(params.cols, LINES);
  const Item item = item_of(params.rows, tiles * quads);
  if (!item.there) { return; }
  const u32 quad = item.col % quads;
  const u32 col0 = item.col / quads * LINES;
  const u32 row = item.row;
  const size_t across = size_t(params.cols) * quads;
  const size_t inside = size_t(item.head) * params.rows * across + quad;
  const bool is_bottom = row + 1u >= params.rows;
  const float has_above = TORUS != 0u || row > 0u ? 1.0f : 0.0f;
  const float has_below = TORUS != 0u || !is_bottom ? 1.0f : 0.0f;
  const u32 row_above = row > 0u ? row - 1u : (TORUS == 0u ? 0u : params.rows - 1u);
  const u32 row_below = is_bottom ? (TORUS == 0u ? row : 0u) : row + 1u;
  const float4* cells = reinterpret_cast<const float4*>(cur) + inside;
  const float4* line = cells + row * across;
  const float4* line_above = cells + row_above * across;
  const float4* line_below = cells + row_below * across;
  const size_t before = size_t(col0 > 0u ? col0 - 1u : (TORUS == 0u ? 0u : params.cols - 1u)) * quads;
  float4 above_left = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float4 below_left = above_left;
  if (NEIGHBOURS == 8u) {
    above_left = line_above[before];
    below_left = line_below[before];
  }
  float4 left = line[before];
  float4 above = line_above[size_t(col0) * quads];
  float4 here = line[size_t(col0) * quads];
  float4 below = line_below[size_t(col0) * quads];
  const float factor = coefficients[params.term];
  const float factor_before = params.term == 0u ? 0.0f : coefficients[params.term - 1u];
  const u32 last = min(col0 + LINES, params.cols);
  for (u32 col = col0; col < last; col++) {
    const bool is_last = col + 1u >= params.cols;
    const float has_left = TORUS != 0u || col > 0u ? 1.0f : 0.0f;
    const float has_right = TORUS != 0u || !is_last ? 1.0f : 0.0f;
    const size_t after = size_t(is_last ? (TORUS == 0u ? col : 0u) : col + 1u) * quads;
    const float4 above_right = line_above[after];
    const float4 right = line[after];
    const float4 below_right = line_below[after];
    const size_t node = size_t(row) * params.cols + col;
    float4 side = filled<float4>(params.edge);
    if (HAS_W) { side = *reinterpret_cast<const float4*>(w + node * NEIGHBOURS); }
    const float centre = HAS_DIAGONAL ? diagonal[node] : params.centre;
    float4 value = centre * here + (side.x * has_left) * left + (side.y * has_right) * right
        + (side.z * has_above) * above + (side.w * has_below) * below;
    if (NEIGHBOURS == 8u) {
      float4 corner = filled<float4>(params.edge);
      if (HAS_W) { corner = *reinterpret_cast<const float4*>(w + node * NEIGHBOURS + 4u); }
      value = value + (corner.x * has_left * has_above) * above_left + (corner.y * has_right * has_above) * above_right
          + (corner.z * has_left * has_below) * below_left + (corner.w * has_right * has_below) * below_right;
    }
    const size_t at = inside + row * across + size_t(col) * quads;
    if (HAS_PREV) { value = 2.0f * value - reinterpret_cast<const float4*>(prev)[at]; }
    if (params.term == 0u) { value = here; }
    if (HAS_NEXT) { reinterpret_cast<float4*>(next)[at] = value; }
    // Where no sum was handed over it begins with the term before, if there is one.
    float4 sum = filled<float4>(0.0f);
    if (HAS_SUM_IN) {
      sum = reinterpret_cast<const float4*>(sum_in)[at];
    } else if (params.term != 0u) {
      sum = factor_before * here;
    }
    reinterpret_cast<float4*>(sum_out)[at] = sum + factor * value;
    above_left = above;
    left = here;
    below_left = below;
    above = above_right;
    here = right;
    below = below_right;
  }
}
