// A sparse matrix times blocks of channels, one thread per number: any number of channels.
@group(0) @binding(1) var<storage, read> starts: array<u32>; // [n + 1]
@group(0) @binding(2) var<storage, read> columns: array<u32>; // [z]
@group(0) @binding(3) var<storage, read> weights: array<f32>; // [z]
@group(0) @binding(4) var<storage, read> diagonal: array<f32>; // [n]
@group(0) @binding(5) var<storage, read> x: array<f32>; // [b, h, n, c]
@group(0) @binding(6) var<storage, read> prev: array<f32>; // [b, h, n, c]
@group(0) @binding(7) var<storage, read_write> y: array<f32>; // [b, h, n, c]

fn load(at: u32) -> f32 { return x[at]; }

// Where a node's numbers begin.
fn source(batch: u32, node: u32) -> u32 { return (params.x_at + (batch * params.n + node) * params.c); }

// What becomes of the channel number `c` of a node whose edges give `edges`.
fn finish(batch: u32, node: u32, c: u32, edges: f32) {
  let at = (batch * params.n + node) * params.c + c;
  var value = params.alpha * edges;
  if (HAS_DIAGONAL) { value += diagonal[params.diagonal_at + node] * load(params.x_at + at); }
  if (HAS_PREV) { value += params.beta * prev[params.prev_at + at]; }
  y[params.y_at + at] = value;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n * params.c + 63u) / 64u;
  let batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= params.n * params.c) { return; }
  let node = item / params.c;
  let c = item % params.c;
  let row = row_of(node);
  var sum = 0.0;
  for (var place = row.x; place < row.y; place++) {
    let column = columns[params.columns_at + place];
    sum += weight_of(place, column) * load(source(batch, node_of(column)) + c);
  }
  finish(batch, node, c, sum);
}
