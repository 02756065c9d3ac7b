// out[j, s, c] = k[j, feature + s] * v[j, c], and the feature alone in the last column; a left-out key gives zeros by
// selection, since it may hold anything. One thread per channel: neighbours write neighbouring words.
@group(0) @binding(1) var<storage, read> k: array<f32>;
@group(0) @binding(2) var<storage, read> v: array<f32>;
@group(0) @binding(3) var<storage, read> key_mask: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let width = params.s * params.p;
  let size = params.n * width;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let row = item / width;
  let slot = item % width / params.p;
  let column = item % params.p;
  var kept = true;
  if (HAS_KEY_MASK) {
    let batch = params.batch_from + local_batch;
    let at = params.key_mask_at + batch / params.h * params.key_mask_b + batch % params.h * params.key_mask_h + row;
    kept = byte_of(key_mask[at >> 2u], at) != 0u;
  }
  var value = 0.0;
  if (kept) {
    value = k[params.k_at + (local_batch * params.n + row) * params.r + params.feature + slot];
    if (column < params.e) { value *= v[params.v_at + (local_batch * params.n + row) * params.e + column]; }
  }
  out[params.out_at + local_batch * size + item] = value;
}
