// Every row times a number of its own, one element per thread.
@group(0) @binding(1) var<storage, read> x: array<f32>; // [b, h, r, c]
@group(0) @binding(2) var<storage, read> s: array<f32>; // [b, h, r, w]
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // [b, h, r, c]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.r * params.c + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let element = group % groups_per_batch * 64u + thread;
  if (element >= params.r * params.c) { return; }
  let batch = params.batch_from + local_batch;
  let s_from = params.s_at + batch / params.h * params.s_b + batch % params.h * params.s_h;
  let raw = s[s_from + element / params.c * params.w + params.column];
  var factor = raw;
  // Rounding may leave a variance a little below 0.
  if (OPERATION == 1u) { factor = 1.0 / sqrt(max(raw, 0.0) + params.epsilon); }
  let line = local_batch * params.r * params.c + element;
  out[params.out_at + line] = x[params.x_at + line] * factor;
}
