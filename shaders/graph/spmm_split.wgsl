// A sparse matrix times blocks of channels whose rows may be longer than one thread's loops: 64 threads share the edges of a
// node, for four channels at a time, and their sums are added in a fixed order.
@group(0) @binding(1) var<storage, read> starts: array<u32>; // [n + 1]
@group(0) @binding(2) var<storage, read> columns: array<u32>; // [z]
@group(0) @binding(3) var<storage, read> weights: array<f32>; // [z]
@group(0) @binding(4) var<storage, read> diagonal: array<f32>; // [n]
@group(0) @binding(5) var<storage, read> x: array<f32>; // [b, h, n, c]
@group(0) @binding(6) var<storage, read> prev: array<f32>; // [b, h, n, c]
@group(0) @binding(7) var<storage, read_write> y: array<f32>; // [b, h, n, c]

var<workgroup> parts: array<vec4f, 64>;

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
  let blocks = (params.c + 3u) / 4u;
  let batch = group / (params.n * blocks);
  let node = group / blocks % params.n;
  let c = group % blocks * 4u;
  // Channels past the end repeat the last and are not stored.
  let c1 = min(c + 1u, params.c - 1u);
  let c2 = min(c + 2u, params.c - 1u);
  let c3 = min(c + 3u, params.c - 1u);
  let row = row_of(node);
  var sum = vec4f();
  for (var place = row.x + thread; place < row.y; place += 64u) {
    let column = columns[params.columns_at + place];
    let at = source(batch, node_of(column));
    sum += weight_of(place, column) * vec4f(load(at + c), load(at + c1), load(at + c2), load(at + c3));
  }
  parts[thread] = sum;
  workgroupBarrier(); // all parts are there before they are added
  if (thread < 4u && c + thread < params.c) {
    var total = 0.0;
    for (var part = 0u; part < 64u; part++) { total += parts[part][thread]; }
    finish(batch, node, c + thread, total);
  }
}
