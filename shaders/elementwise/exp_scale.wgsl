// out = exp(-x / lambda[head]): four numbers per thread, 64 apart, so that neighbouring threads share cache lines.
// x, out [b, h, n, m], lambda [h].
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> lambda: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let per_batch = params.n * params.m;
  let groups_per_batch = (per_batch + 255u) / 256u;
  let local_batch = group / groups_per_batch;
  let begin = local_batch * per_batch;
  let scale = lambda[params.lambda_at + (params.batch_from + local_batch) % params.h];
  let from_place = group % groups_per_batch * 256u + thread;
  for (var i = from_place; i < min(from_place + 256u, per_batch); i += 64u) {
    out[params.out_at + begin + i] = exp_accurate(-x[params.x_at + begin + i] / scale);
  }
}
