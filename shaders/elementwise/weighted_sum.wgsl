// out = alpha x + beta y: four numbers per thread, 64 apart, so that neighbouring threads share cache lines.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let per_batch = params.n * params.m;
  let groups_per_batch = (per_batch + 255u) / 256u;
  let begin = group / groups_per_batch * per_batch;
  let first = group % groups_per_batch * 256u + thread;
  for (var i = first; i < min(first + 256u, per_batch); i += 64u) {
    out[params.out_at + begin + i] = params.alpha * x[params.x_at + begin + i] + params.beta * y[params.y_at + begin + i];
  }
}
