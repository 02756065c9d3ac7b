// A step of the Chebyshev recurrence on a grid, four channels of LINES nodes of a grid row per thread: the 3 x 3 nodes around the
// current one stay in registers, so a node costs three vectors of cur, and memory is read and written from front to back, which
// matters where the grid does not fit the caches (walking down columns took twice as long on llvmpipe). Neighbouring threads take
// neighbouring channels. Outside the grid a node's own row or column stands in, with weight 0.
@group(0) @binding(1) var<storage, read> cur: array<vec4f>; // [b, h, rows, cols, c]
@group(0) @binding(2) var<storage, read> prev: array<vec4f>;
@group(0) @binding(3) var<storage, read> sum_in: array<vec4f>;
@group(0) @binding(4) var<storage, read> w: array<vec4f>; // [rows, cols, e]
@group(0) @binding(5) var<storage, read> diagonal: array<f32>; // [rows, cols]
@group(0) @binding(6) var<uniform> coefficients: array<vec4f, 4096>; // [k]
@group(0) @binding(7) var<storage, read_write> next: array<vec4f>;
@group(0) @binding(8) var<storage, read_write> sum_out: array<vec4f>;

fn texel(at: u32) -> vec4f { return cur[at]; }

// Weights of the edges of a node, from slot 0 or 4 on.
fn edges(node: u32, slot: u32) -> vec4f {
  let at = (params.w_at + node * NEIGHBOURS + slot) / 4u;
  return w[at];
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let quads = params.c / 4u;
  let tiles = (params.cols + LINES - 1u) / LINES;
  let items = params.rows * tiles * quads;
  let groups_per_batch = (items + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= items) { return; }
  let quad = item % quads;
  let col0 = item / quads % tiles * LINES;
  let row = item / quads / tiles;
  let across = params.cols * quads;
  let inside = local_batch * params.rows * across;
  let first = row * across + quad;
  let is_bottom = row + 1u >= params.rows;
  let has_above = select(0.0, 1.0, TORUS != 0u || row > 0u);
  let has_below = select(0.0, 1.0, TORUS != 0u || !is_bottom);
  let row_above = select(select(params.rows - 1u, 0u, TORUS == 0u), row - 1u, row > 0u);
  let row_below = select(row + 1u, select(0u, row, TORUS == 0u), is_bottom);
  let here_from = params.cur_at / 4u + inside + first;
  let above_from = params.cur_at / 4u + inside + row_above * across + quad;
  let below_from = params.cur_at / 4u + inside + row_below * across + quad;
  let before = select(select(params.cols - 1u, 0u, TORUS == 0u), col0 - 1u, col0 > 0u) * quads;
  var above_left = vec4f();
  var below_left = vec4f();
  if (NEIGHBOURS == 8u) {
    above_left = texel(above_from + before);
    below_left = texel(below_from + before);
  }
  var left = texel(here_from + before);
  var above = texel(above_from + col0 * quads);
  var here = texel(here_from + col0 * quads);
  var below = texel(below_from + col0 * quads);
  let factor = coefficient(params.term);
  let last = min(col0 + LINES, params.cols);
  for (var col = col0; col < last; col++) {
    let is_last = col + 1u >= params.cols;
    let has_left = select(0.0, 1.0, TORUS != 0u || col > 0u);
    let has_right = select(0.0, 1.0, TORUS != 0u || !is_last);
    let after = select(col + 1u, select(0u, col, TORUS == 0u), is_last) * quads;
    let above_right = texel(above_from + after);
    let right = texel(here_from + after);
    let below_right = texel(below_from + after);
    let node = row * params.cols + col;
    var side = vec4f(params.edge);
    if (HAS_W) { side = edges(node, 0u); }
    side *= vec4f(has_left, has_right, has_above, has_below);
    var centre = params.centre;
    if (HAS_DIAGONAL) { centre = diagonal[params.diagonal_at + node]; }
    var value = centre * here + side.x * left + side.y * right + side.z * above + side.w * below;
    if (NEIGHBOURS == 8u) {
      var corner = vec4f(params.edge);
      if (HAS_W) { corner = edges(node, 4u); }
      corner *= vec4f(vec2f(has_left, has_right) * has_above, vec2f(has_left, has_right) * has_below);
      value += corner.x * above_left + corner.y * above_right + corner.z * below_left + corner.w * below_right;
    }
    let at = inside + first + col * quads;
    if (HAS_PREV) { value = 2.0 * value - prev[params.prev_at / 4u + at]; }
    if (params.term == 0u) { value = here; }
    if (HAS_NEXT) { next[params.next_at / 4u + at] = value; }
    var sum = vec4f();
    if (HAS_SUM_IN) { sum = sum_in[params.sum_in_at / 4u + at]; } else { sum = begin_sum(here); }
    sum_out[params.sum_out_at / 4u + at] = sum + factor * value;
    above_left = above;
    left = here;
    below_left = below;
    above = above_right;
    here = right;
    below = below_right;
  }
}
