// As feature_pointwise_plain.wgsl, with u as texels of four words, which are of one row. One thread per texel.
@group(0) @binding(1) var u: texture_2d<f32>;
@group(0) @binding(2) var<storage, read> key_mask: array<u32>;
@group(0) @binding(3) var<storage, read> starts: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let texels = params.p / 4u;
  let size = params.n * texels;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let kept = row_is_kept(local_batch, item / texels);
  let y = params.scale * textureLoad(u, texel_place(params.u_at / 4u + local_batch * size + item), 0);
  let eps = params.eps;
  let at = params.out_at + (local_batch * size + item) * 4u;
  out[at] = select(0.0, value_of(y.x, eps), kept);
  out[at + 1u] = select(0.0, value_of(y.y, eps), kept);
  out[at + 2u] = select(0.0, value_of(y.z, eps), kept);
  out[at + 3u] = select(0.0, value_of(y.w, eps), kept);
}

fn value_of(y: f32, eps: f32) -> f32 {
  if (MAP == 0u) { return select(exp_accurate(y), y + 1.0, y > 0.0); }
  return max(y, 0.0) + eps;
}

fn row_is_kept(local_batch: u32, row: u32) -> bool {
  let b = (params.batch_from + local_batch) / params.h;
  let h = (params.batch_from + local_batch) % params.h;
  var kept = true;
  if (HAS_KEY_MASK) {
    let at = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h + row;
    kept = byte_of(key_mask[at >> 2u], at) != 0u;
  }
  if (HAS_STARTS) {
    let at = params.starts_at + b * params.starts_b + h * params.starts_h;
    kept = kept && row >= starts[at] && row < starts[at + params.s - 1u];
  }
  return kept;
}
