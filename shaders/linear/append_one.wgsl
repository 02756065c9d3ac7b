// out[i] = [x[i], 1] where token i is kept, zeros elsewhere (selected: masked rows may hold anything). One thread per element.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> keep: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.n * params.p;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let row = item / params.p;
  let col = item % params.p;
  let batch = params.batch_from + local_batch;
  var kept = true;
  if (HAS_KEEP) {
    let at = params.keep_at + batch / params.h * params.keep_b + batch % params.h * params.keep_h + row;
    kept = byte_of(keep[at >> 2u], at) != 0u;
  }
  var value = 0.0;
  if (kept) {
    value = 1.0;
    if (col < params.e) { value = x[params.x_at + (local_batch * params.n + row) * params.e + col]; }
  }
  out[params.out_at + local_batch * size + item] = value;
}
