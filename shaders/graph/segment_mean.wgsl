// y[g, c] = mean of x[i, c] over the nodes i of graph g, 0 for a graph without nodes. One thread per number.
@group(0) @binding(1) var<storage, read> x: array<f32>; // [b, h, n, c]
@group(0) @binding(2) var<storage, read> offsets: array<u32>; // [g + 1]
@group(0) @binding(3) var<storage, read_write> y: array<f32>; // [b, h, g, c]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.g * params.c;
  let groups_per_batch = (size + 63u) / 64u;
  let batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let graph = item / params.c;
  let last = min(offsets[params.offsets_at + graph + 1u], params.n);
  let first = min(offsets[params.offsets_at + graph], last);
  var sum = 0.0;
  for (var i = first; i < last; i++) { sum += x[params.x_at + (batch * params.n + i) * params.c + item % params.c]; }
  y[params.y_at + batch * size + item] = sum / f32(max(last - first, 1u));
}
