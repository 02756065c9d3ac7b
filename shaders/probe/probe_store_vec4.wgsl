// Sixteen vectors per thread and nothing read, neighbours side by side. out [b, h, n].
@group(0) @binding(1) var<storage, read_write> out: array<vec4f>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n / 4u + 1023u) / 1024u;
  let start = group % groups_per_batch * 1024u + thread;
  let end = min(start + 1024u, params.n / 4u);
  let out_from = (params.out_at + group / groups_per_batch * params.n) / 4u;
  for (var at = start; at < end; at += 64u) { out[out_from + at] = vec4f(params.value); }
}
