// A step of the Chebyshev recurrence on a grid, one thread per number: any number of channels.
@group(0) @binding(1) var<storage, read> cur: array<f32>; // [b, h, rows, cols, c]
@group(0) @binding(2) var<storage, read> prev: array<f32>; // [b, h, rows, cols, c]
@group(0) @binding(3) var<storage, read> sum_in: array<f32>; // [b, h, rows, cols, c]
@group(0) @binding(4) var<storage, read> w: array<f32>; // [rows, cols, e]
@group(0) @binding(5) var<storage, read> diagonal: array<f32>; // [rows, cols]
@group(0) @binding(6) var<uniform> coefficients: array<vec4f, 4096>; // [k]
@group(0) @binding(7) var<storage, read_write> next: array<f32>; // [b, h, rows, cols, c]
@group(0) @binding(8) var<storage, read_write> sum_out: array<f32>; // [b, h, rows, cols, c]

// The number of a neighbour times the weight of its edge, 0 outside the grid.
fn edge(from_word: u32, node: u32, slot: u32, row: u32, col: u32, down: u32, along: u32) -> f32 {
  // One more than the neighbour's row and column, so that nothing is negative.
  let r = row + down;
  let c = col + along;
  let inside = TORUS != 0u || (r >= 1u && r <= params.rows && c >= 1u && c <= params.cols);
  let place = ((r + params.rows) - 1u) % params.rows * params.cols + (c + params.cols - 1u) % params.cols;
  var weight = params.edge;
  if (HAS_W) { weight = w[params.w_at + node * NEIGHBOURS + slot]; }
  return select(0.0, weight * cur[from_word + place * params.c], inside);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.rows * params.cols * params.c;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let node = item / params.c;
  let row = node / params.cols;
  let col = node % params.cols;
  let from_word = params.cur_at + local_batch * size + item % params.c;
  let here = cur[from_word + node * params.c];
  var centre = params.centre;
  if (HAS_DIAGONAL) { centre = diagonal[params.diagonal_at + node]; }
  var value = centre * here;
  value += edge(from_word, node, 0u, row, col, 1u, 0u);
  value += edge(from_word, node, 1u, row, col, 1u, 2u);
  value += edge(from_word, node, 2u, row, col, 0u, 1u);
  value += edge(from_word, node, 3u, row, col, 2u, 1u);
  if (NEIGHBOURS == 8u) {
    value += edge(from_word, node, 4u, row, col, 0u, 0u);
    value += edge(from_word, node, 5u, row, col, 0u, 2u);
    value += edge(from_word, node, 6u, row, col, 2u, 0u);
    value += edge(from_word, node, 7u, row, col, 2u, 2u);
  }
  let at = local_batch * size + item;
  if (HAS_PREV) { value = 2.0 * value - prev[params.prev_at + at]; }
  if (params.term == 0u) { value = here; }
  if (HAS_NEXT) { next[params.next_at + at] = value; }
  var sum = 0.0;
  if (HAS_SUM_IN) { sum = sum_in[params.sum_in_at + at]; } else { sum = begin_sum(vec4f(here)).x; }
  sum_out[params.sum_out_at + at] = sum + coefficient(params.term) * value;
}
