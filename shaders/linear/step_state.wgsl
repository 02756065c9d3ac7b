// out[l] = [S[l], z[l]] from a state that holds all products S and then the sums z, and whatever comes after. One thread per element.
@group(0) @binding(1) var<storage, read> state: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.r * params.w;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let e = params.w - 1u;
  let row = item / params.w;
  let col = item % params.w;
  let place = select(row * e + col, params.r * e + row, col == e);
  out[params.out_at + local_batch * size + item] = state[params.state_at + local_batch * params.s + place];
}
