// out[j, i] = x[i, j], one element per thread, without workgroup memory: for drivers on which a tile gains nothing, or
// fails. Neighbouring threads write neighbouring words.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.n * params.m;
  let groups_per_batch = (size + 63u) / 64u;
  let batch = group / groups_per_batch;
  let at = group % groups_per_batch * 64u + thread;
  if (at >= size) { return; }
  let col = at / params.n;
  let row = at % params.n;
  out[params.out_at + batch * size + at] = x[params.x_at + batch * size + row * params.m + col];
}
