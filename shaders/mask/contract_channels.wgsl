// out[i, c] = before[i, c] + sum over s of q[i, feature + s] * y[i, s, c]. One thread per column of a row: neighbours read
// neighbouring words of y, and the same word of q.
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read> before: array<f32>;
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
  let row = local_batch * params.n + item / params.p;
  let column = item % params.p;
  var sum = 0.0;
  if (HAS_BEFORE) { sum = before[params.before_at + local_batch * size + item]; }
  let q_row = params.q_at + row * params.r + params.feature;
  let y_row = params.y_at + row * params.s * params.p + column;
  for (var slot = 0u; slot < params.s; slot++) {
    sum += q[q_row + slot] * y[y_row + slot * params.p];
  }
  out[params.out_at + local_batch * size + item] = sum;
}
