// A sparse matrix times blocks of channels: WIDTH times four channels of one node per thread, so that an edge's column and
// weight are loaded once for all of them; neighbouring threads take neighbouring channels.
@group(0) @binding(1) var<storage, read> starts: array<u32>; // [n + 1]
@group(0) @binding(2) var<storage, read> columns: array<u32>; // [z]
@group(0) @binding(3) var<storage, read> weights: array<f32>; // [z]
@group(0) @binding(4) var<storage, read> diagonal: array<f32>; // [n]
@group(0) @binding(5) var<storage, read> x: array<vec4f>; // [b, h, n, c]
@group(0) @binding(6) var<storage, read> prev: array<vec4f>; // [b, h, n, c]
@group(0) @binding(7) var<storage, read_write> y: array<vec4f>; // [b, h, n, c]

fn load(at: u32) -> vec4f { return x[at]; }

// Where a node's numbers begin.
fn source(batch: u32, node: u32) -> u32 { return (params.x_at + (batch * params.n + node) * params.c) / 4u; }

// What becomes of the four channels number `c` of a node whose edges give `edges`.
fn finish(batch: u32, node: u32, c: u32, edges: vec4f) {
  let at = (batch * params.n + node) * params.c / 4u + c;
  var value = params.alpha * edges;
  if (HAS_DIAGONAL) { value += diagonal[params.diagonal_at + node] * load(params.x_at / 4u + at); }
  if (HAS_PREV) { value += params.beta * prev[params.prev_at / 4u + at]; }
  y[params.y_at / 4u + at] = value;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let quads = params.c / 4u;
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
