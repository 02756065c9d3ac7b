// A step of the Chebyshev recurrence on a sparse operator: WIDTH times four channels of one node per thread, so that an edge's column and
// weight are loaded once for all of them; neighbouring threads take neighbouring channels, which come as texels.
@group(0) @binding(1) var<storage, read> starts: array<u32>; // [n + 1]
@group(0) @binding(2) var<storage, read> columns: array<u32>; // [z]
@group(0) @binding(3) var<storage, read> weights: array<f32>; // [z], and the diagonal [n] behind them
@group(0) @binding(4) var<uniform> coefficients: array<vec4f, 4096>; // [k]
@group(0) @binding(5) var cur: texture_2d<f32>; // [b, h, n, c]
@group(0) @binding(6) var<storage, read> prev: array<vec4f>; // [b, h, n, p]
@group(0) @binding(7) var<storage, read> sum_in: array<vec4f>; // [b, h, n, m]
@group(0) @binding(8) var<storage, read_write> next: array<vec4f>; // [b, h, n, m]
@group(0) @binding(9) var<storage, read_write> sum_out: array<vec4f>; // [b, h, n, q]

fn load(at: u32) -> vec4f { return textureLoad(cur, texel_place(at), 0); }

// Where a node's numbers begin.
fn source(batch: u32, node: u32) -> u32 { return (params.cur_at + params.cur_from + (batch * params.n + node) * params.c) / 4u; }

// What becomes of the four channels number `c` of a node whose edges give `edges`.
fn finish(batch: u32, node: u32, c: u32, edges: vec4f) {
  let row = batch * params.n + node;
  let here = load(source(batch, node) + c);
  var value = edges;
  if (HAS_WEIGHTS) {
    if (params.v > params.z) { value += weights[params.weights_at + params.z + node] * here; }
  }
  if (HAS_PREV) { value = 2.0 * value - prev[(params.prev_at + params.prev_from + row * params.p) / 4u + c]; }
  if (params.term == 0u) { value = here; }
  let at = row * params.m / 4u + c;
  if (HAS_NEXT) { next[params.next_at / 4u + at] = value; }
  var sum = vec4f();
  if (HAS_SUM_IN) { sum = sum_in[params.sum_in_at / 4u + at]; } else { sum = begin_sum(here); }
  sum_out[(params.sum_out_at + params.sum_from + row * params.q) / 4u + c] = sum + coefficient(params.term) * value;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let quads = params.m / 4u;
  let slices = (quads + WIDTH - 1u) / WIDTH;
  let groups_per_batch = (params.n * slices + 63u) / 64u;
  let batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= params.n * slices) { return; }
  let node = item / slices;
  let c = item % slices * WIDTH;
  // Channels past the end repeat the last and are not stored.
  let c1 = min(c + 1u, quads - 1u);
  let c2 = min(c + 2u, quads - 1u);
  let c3 = min(c + 3u, quads - 1u);
  let row = row_of(node);
  var a0 = vec4f();
  var a1 = vec4f();
  var a2 = vec4f();
  var a3 = vec4f();
  for (var place = row.x; place < row.y; place++) {
    let column = columns[params.columns_at + place];
    let weight = weight_of(place, column);
    let at = source(batch, node_of(column));
    a0 += weight * load(at + c);
    if (WIDTH > 1u) {
      a1 += weight * load(at + c1);
      a2 += weight * load(at + c2);
      a3 += weight * load(at + c3);
    }
  }
  finish(batch, node, c, a0);
  if (WIDTH > 1u) {
    if (c + 1u < quads) { finish(batch, node, c + 1u, a1); }
    if (c + 2u < quads) { finish(batch, node, c + 2u, a2); }
    if (c + 3u < quads) { finish(batch, node, c + 3u, a3); }
  }
}
