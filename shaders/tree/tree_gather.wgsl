// Sums of rows that a list names: LANES channels of one row of the result per thread.
@group(0) @binding(1) var<storage, read> starts: array<u32>; // [m + 1]
@group(0) @binding(2) var<storage, read> columns: array<u32>; // [z]
@group(0) @binding(3) var<storage, read> weights: array<f32>; // [z]
@group(0) @binding(4) var<storage, read> x: array<Value>; // [b, h, n, c]
@group(0) @binding(5) var<storage, read> prev: array<Value>; // [b, h, m, c]
@group(0) @binding(6) var<storage, read_write> y: array<Value>; // [b, h, m, c]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let channels = params.c / LANES;
  let groups_per_batch = (params.m * channels + 63u) / 64u;
  let batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= params.m * channels) { return; }
  let row = item / channels;
  let channel = item % channels;
  let last = min(starts[params.starts_at + row + 1u], params.z);
  let source = params.x_at / LANES + batch * params.n * channels + channel;
  var sum = Value();
  for (var place = min(starts[params.starts_at + row], last); place < last; place++) {
    let column = columns[params.columns_at + place];
    if (column < params.n) {
      var weight = 1.0;
      if (HAS_WEIGHTS) { weight = weights[params.weights_at + place]; }
      sum += weight * x[source + column * channels];
    }
  }
  let at = (batch * params.m + row) * channels + channel;
  if (HAS_PREV) { sum += prev[params.prev_at / LANES + at]; }
  y[params.y_at / LANES + at] = sum;
}
