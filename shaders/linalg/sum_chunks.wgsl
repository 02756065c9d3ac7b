// out[c] = alpha factor sum over chunks of x[chunk, c], in the order of the chunks; one thread per column.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> factor: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_blocks = (params.m + 63u) / 64u;
  let local_batch = group / col_blocks;
  let col = group % col_blocks * 64u + thread;
  if (col >= params.m) { return; }
  var sum = 0.0;
  for (var chunk = 0u; chunk < params.c; chunk++) {
    sum += x[params.x_at + (local_batch * params.c + chunk) * params.m + col];
  }
  sum *= params.alpha;
  if (HAS_FACTOR) { sum *= factor[params.factor_at + local_batch]; }
  out[params.out_at + local_batch * params.m + col] = sum;
}
