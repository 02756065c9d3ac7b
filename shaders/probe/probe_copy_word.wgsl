// One word per thread, for lengths that are no whole vectors. x, out [b, h, n].
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 63u) / 64u;
  let place = group % groups_per_batch * 64u + thread;
  if (place >= params.n) { return; }
  let at = group / groups_per_batch * params.n + place;
  out[params.out_at + at] = x[params.x_at + at];
}
