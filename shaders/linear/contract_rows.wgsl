// out[i, c] = sum[i, c] + the products of the query's features with their channels. One thread per element.
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read> sum: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.n * params.p;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let token = local_batch * params.n + item / params.p;
  let q_from = params.q_at + token * params.r + params.first;
  let y_from = params.y_at + token * params.s + item % params.p;
  var total = 0.0;
  if (HAS_SUM) { total = sum[params.sum_at + local_batch * size + item]; }
  for (var l = 0u; l < params.s / params.p; l++) {
    total += q[q_from + l] * y[y_from + l * params.p];
  }
  out[params.out_at + local_batch * size + item] = total;
}
