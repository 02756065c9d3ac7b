// A step of the Chebyshev recurrence on a grid for software drivers: sixteen channels of one node per thread, so that the row of S
// is loaded once for them and a thread reads and writes whole cache lines (four channels a thread took twice as long on llvmpipe).
// Outside the grid the node's own number stands in, with weight 0.
@group(0) @binding(1) var cur: texture_2d<f32>; // [b, h, rows, cols, c]
@group(0) @binding(2) var<storage, read> prev: array<vec4f>;
@group(0) @binding(3) var<storage, read> sum_in: array<vec4f>;
@group(0) @binding(4) var<storage, read> w: array<vec4f>; // [rows, cols, e]
@group(0) @binding(5) var<storage, read> diagonal: array<f32>; // [rows, cols]
@group(0) @binding(6) var<uniform> coefficients: array<vec4f, 4096>; // [k]
@group(0) @binding(7) var<storage, read_write> next: array<vec4f>;
@group(0) @binding(8) var<storage, read_write> sum_out: array<vec4f>;

fn texel(at: u32) -> vec4f { return textureLoad(cur, texel_place(at), 0); }

// Weights of the edges of a node, from slot 0 or 4 on.
fn edges(node: u32, slot: u32) -> vec4f { return w[(params.w_at + node * NEIGHBOURS + slot) / 4u]; }

// Where the first texels of the neighbours are: left, right, above, below; then the corners.
struct Places {
  here: u32,
  side: vec4u,
  corner: vec4u,
}

// Four channels: `at` is their place in the tensors, `c` their number.
fn quad(places: Places, centre: f32, side: vec4f, corner: vec4f, at: u32, c: u32) {
  let here = texel(places.here + c);
  var value = centre * here + side.x * texel(places.side.x + c) + side.y * texel(places.side.y + c)
    + side.z * texel(places.side.z + c) + side.w * texel(places.side.w + c);
  if (NEIGHBOURS == 8u) {
    value += corner.x * texel(places.corner.x + c) + corner.y * texel(places.corner.y + c)
      + corner.z * texel(places.corner.z + c) + corner.w * texel(places.corner.w + c);
  }
  if (HAS_PREV) { value = 2.0 * value - prev[params.prev_at / 4u + at + c]; }
  if (params.term == 0u) { value = here; }
  if (HAS_NEXT) { next[params.next_at / 4u + at + c] = value; }
  var sum = vec4f();
  if (HAS_SUM_IN) { sum = sum_in[params.sum_in_at / 4u + at + c]; } else { sum = begin_sum(here); }
  sum_out[params.sum_out_at / 4u + at + c] = sum + coefficient(params.term) * value;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let quads = params.c / 4u;
  let slices = (quads + 3u) / 4u;
  let items = params.rows * params.cols * slices;
  let groups_per_batch = (items + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= items) { return; }
  let node = item / slices;
  let c = (item - node * slices) * 4u;
  let row = node / params.cols;
  let col = node - row * params.cols;
  let is_right = col + 1u >= params.cols;
  let is_bottom = row + 1u >= params.rows;
  // Neighbours by row and column; at an edge of the grid the other side, or the node itself.
  let col_left = select(select(0u, params.cols - 1u, TORUS != 0u), col - 1u, col > 0u);
  let col_right = select(col + 1u, select(col, 0u, TORUS != 0u), is_right);
  let row_above = select(select(0u, params.rows - 1u, TORUS != 0u), row - 1u, row > 0u) * params.cols;
  let row_below = select(row + 1u, select(row, 0u, TORUS != 0u), is_bottom) * params.cols;
  let inside = vec4f(
    select(0.0, 1.0, TORUS != 0u || col > 0u), select(0.0, 1.0, TORUS != 0u || !is_right),
    select(0.0, 1.0, TORUS != 0u || row > 0u), select(0.0, 1.0, TORUS != 0u || !is_bottom));
  let from_texel = params.cur_at / 4u + local_batch * params.rows * params.cols * quads;
  let row_here = row * params.cols;
  var places = Places();
  places.here = from_texel + node * quads;
  places.side = vec4u(row_here + col_left, row_here + col_right, row_above + col, row_below + col) * quads + vec4u(from_texel);
  places.corner = vec4u(row_above + col_left, row_above + col_right, row_below + col_left, row_below + col_right) * quads + vec4u(from_texel);
  var side = vec4f(params.edge);
  if (HAS_W) { side = edges(node, 0u); }
  side *= inside;
  var corner = vec4f(params.edge);
  if (NEIGHBOURS == 8u) {
    if (HAS_W) { corner = edges(node, 4u); }
    corner *= inside.xyxy * inside.zzww;
  }
  var centre = params.centre;
  if (HAS_DIAGONAL) { centre = diagonal[params.diagonal_at + node]; }
  let at = (local_batch * params.rows * params.cols + node) * quads;
  quad(places, centre, side, corner, at, c);
  if (c + 1u < quads) { quad(places, centre, side, corner, at, c + 1u); }
  if (c + 2u < quads) { quad(places, centre, side, corner, at, c + 2u); }
  if (c + 3u < quads) { quad(places, centre, side, corner, at, c + 3u); }
}
