// A run of RUN vectors per thread. x, out [b, h, n].
@group(0) @binding(1) var<storage, read> x: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4f>;

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let vectors = params.n / 4u;
  let groups_per_batch = (vectors + 8u * RUN - 1u) / (8u * RUN);
  let batch = group / groups_per_batch;
  let start = (group % groups_per_batch * 8u + thread) * RUN;
  let end = min(start + RUN, vectors);
  let x_from = params.x_at / 4u + batch * vectors;
  let out_from = params.out_at / 4u + batch * vectors;
  for (var at = start; at < end; at++) { out[out_from + at] = x[x_from + at]; }
}
