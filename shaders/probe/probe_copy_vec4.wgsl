// Four words per thread, neighbours side by side. x, out [b, h, n].
@group(0) @binding(1) var<storage, read> x: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4f>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let vectors = params.n / 4u;
  let groups_per_batch = (vectors + 63u) / 64u;
  let place = group % groups_per_batch * 64u + thread;
  if (place >= vectors) { return; }
  let at = group / groups_per_batch * vectors + place;
  out[params.out_at / 4u + at] = x[params.x_at / 4u + at];
}
