// A step of the Chebyshev recurrence on a sparse operator whose rows may be longer than one thread's loops: 64 threads share the edges of a
// node, for four channels at a time, and their sums are added in a fixed order.
@group(0) @binding(1) var<storage, read> starts: array<u32>; // [n + 1]
@group(0) @binding(2) var<storage, read> columns: array<u32>; // [z]
@group(0) @binding(3) var<storage, read> weights: array<f32>; // [z], and the diagonal [n] behind them
@group(0) @binding(4) var<uniform> coefficients: array<vec4f, 4096>; // [k]
@group(0) @binding(5) var<storage, read> cur: array<f32>; // [b, h, n, c]
@group(0) @binding(6) var<storage, read> prev: array<f32>; // [b, h, n, p]
@group(0) @binding(7) var<storage, read> sum_in: array<f32>; // [b, h, n, m]
@group(0) @binding(8) var<storage, read_write> next: array<f32>; // [b, h, n, m]
@group(0) @binding(9) var<storage, read_write> sum_out: array<f32>; // [b, h, n, q]

var<workgroup> parts: array<vec4f, 64>;

fn load(at: u32) -> f32 { return cur[at]; }

// Where a node's numbers begin.
fn source(batch: u32, node: u32) -> u32 { return (params.cur_at + params.cur_from + (batch * params.n + node) * params.c); }

// What becomes of the channel number `c` of a node whose edges give `edges`.
fn finish(batch: u32, node: u32, c: u32, edges: f32) {
  let row = batch * params.n + node;
  let here = load(source(batch, node) + c);
  var value = edges;
  if (HAS_WEIGHTS) {
    if (params.v > params.z) { value += weights[params.weights_at + params.z + node] * here; }
  }
  if (HAS_PREV) { value = 2.0 * value - prev[(params.prev_at + params.prev_from + row * params.p) + c]; }
  if (params.term == 0u) { value = here; }
  let at = row * params.m + c;
  if (HAS_NEXT) { next[params.next_at + at] = value; }
  var sum = 0.0;
  if (HAS_SUM_IN) { sum = sum_in[params.sum_in_at + at]; } else { sum = begin_sum(vec4f(here)).x; }
  sum_out[(params.sum_out_at + params.sum_from + row * params.q) + c] = sum + coefficient(params.term) * value;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let blocks = (params.m + 3u) / 4u;
  let batch = group / (params.n * blocks);
  let node = group / blocks % params.n;
  let c = group % blocks * 4u;
  // Channels past the end repeat the last and are not stored.
  let c1 = min(c + 1u, params.m - 1u);
  let c2 = min(c + 2u, params.m - 1u);
  let c3 = min(c + 3u, params.m - 1u);
  let row = row_of(node);
  var sum = vec4f();
  for (var place = row.x + thread; place < row.y; place += 64u) {
    let column = columns[params.columns_at + place];
    let at = source(batch, node_of(column));
    sum += weight_of(place, column) * vec4f(load(at + c), load(at + c1), load(at + c2), load(at + c3));
  }
  parts[thread] = sum;
  workgroupBarrier(); // all parts are there before they are added
  if (thread < 4u && c + thread < params.m) {
    var total = 0.0;
    for (var part = 0u; part < 64u; part++) { total += parts[part][thread]; }
    finish(batch, node, c + thread, total);
  }
}
