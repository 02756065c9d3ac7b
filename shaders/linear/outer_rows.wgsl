// out[i, l (e + 1) + c] = k[i, first + l] [v[i], 1][c], 0 where token i is masked (selected). One thread per element.
@group(0) @binding(1) var<storage, read> k: array<f32>;
@group(0) @binding(2) var<storage, read> v: array<f32>;
@group(0) @binding(3) var<storage, read> keep: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.n * params.s;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let i = item / params.s;
  let feature = item % params.s / (params.e + 1u);
  let col = item % params.s % (params.e + 1u);
  let batch = params.batch_from + local_batch;
  var kept = true;
  if (HAS_KEEP) {
    let at = params.keep_at + batch / params.h * params.keep_b + batch % params.h * params.keep_h + i;
    kept = byte_of(keep[at >> 2u], at) != 0u;
  }
  let token = local_batch * params.n + i;
  var value = 0.0;
  if (kept) {
    value = k[params.k_at + token * params.r + params.first + feature];
    if (col < params.e) { value *= v[params.v_at + token * params.e + col]; }
  }
  out[params.out_at + local_batch * size + item] = value;
}
