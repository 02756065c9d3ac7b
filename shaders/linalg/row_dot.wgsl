// out[i] = sum_c x[i, c] y[i, c] (or sum_c x[i, c]), or 1 / sqrt(max(that, 0) + offset). One thread per row.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let row = group % groups_per_batch * 64u + thread;
  if (row >= params.n) { return; }
  let start = (local_batch * params.n + row) * params.m;
  var sum = 0.0;
  for (var c = 0u; c < params.m; c++) {
    if (HAS_Y) { sum += x[params.x_at + start + c] * y[params.y_at + start + c]; }
    else { sum += x[params.x_at + start + c]; }
  }
  if (INVERSE_SQRT != 0u) { sum = 1.0 / sqrt(max(sum, 0.0) + params.offset); }
  out[params.out_at + local_batch * params.n + row] = sum;
}
