// Whether the rounding noise of a Fourier multiply may spoil a row's denominator, one thread per row.
@group(0) @binding(1) var<storage, read> sums: array<f32>; // [b, h, n, p], the last column is the denominator
@group(0) @binding(2) var<storage, read> q: array<f32>; // [b, h, n, r]
@group(0) @binding(3) var<storage, read> norms: array<f32>; // [b, h, r]
@group(0) @binding(4) var<storage, read> table_norm: array<f32>; // [h or 1]
@group(0) @binding(5) var<storage, read> query_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(6) var<storage, read_write> flags: array<u32>; // [b, h, n]

// By the bits: some drivers say that NaN equals itself.
fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let row = group % groups_per_batch * 64u + thread;
  if (row >= params.n) { return; }
  let batch = params.batch_from + local_batch;
  let q_from = params.q_at + (local_batch * params.n + row) * params.r;
  let norms_from = params.norms_at + local_batch * params.r;
  var size = 0.0;
  // Features 2l and 2l + 1 are one complex number of the transform: the noise of the larger is in both.
  for (var c = 0u; c < params.r; c++) {
    let partner = select(c, c ^ 1u, (c ^ 1u) < params.r);
    size += abs(q[q_from + c]) * max(norms[norms_from + c], norms[norms_from + partner]);
  }
  // Unit roundoff 2^-24.
  let noise = params.safety * 5.9604644775390625e-8 * params.log2_length
    * table_norm[params.table_norm_at + batch % params.h % params.tables] * size;
  let total = sums[params.sums_at + (local_batch * params.n + row) * params.p + params.p - 1u];
  var flagged = !is_finite(total) || !is_finite(noise) || !(total > 0.0) || noise > params.tau * total;
  if (params.spare_zeros != 0u) { flagged = flagged && !(size == 0.0 && total == 0.0 && is_finite(total)); }
  if (HAS_QUERY_MASK) {
    let at = params.query_mask_at + batch / params.h * params.query_mask_b + batch % params.h * params.query_mask_h + row;
    flagged = flagged && ((query_mask[at >> 2u] >> ((at & 3u) * 8u)) & 0xffu) != 0u;
  }
  flags[params.flags_at + local_batch * params.n + row] = select(0u, 1u, flagged);
}
