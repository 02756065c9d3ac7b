// Four query rows per thread, 8 threads per group, for software drivers: queries and results stay in registers, keys and
// values come as texels, which on llvmpipe cost a tenth of four storage words. All threads read the same texel. Up to
// 64 coordinates of the queries are in registers (HELD texels of 4); beyond them both sides are read again. A group
// makes 64 value columns (WIDTH texels, fewer where the values are narrower).
@group(0) @binding(1) var q: texture_2d<f32>; // [b, h, n, d]
@group(0) @binding(2) var k: texture_2d<f32>; // [b, h, m, d]
@group(0) @binding(3) var v: texture_2d<f32>; // [b, h, m, e]
@group(0) @binding(4) var<storage, read> lambda: array<f32>; // [h] or [1]
@group(0) @binding(5) var<storage, read> key_mask: array<u32>; // bytes [b, h, mm]
@group(0) @binding(6) var<storage, read> mask: array<u32>; // bytes [b, h, n, mm]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [b, h, n, p]

fn texel_q(at: u32) -> vec4f { return textureLoad(q, vec2u(at & 2047u, at >> 11u), 0); }
fn texel_k(at: u32) -> vec4f { return textureLoad(k, vec2u(at & 2047u, at >> 11u), 0); }
fn texel_v(at: u32) -> vec4f { return textureLoad(v, vec2u(at & 2047u, at >> 11u), 0); }

// Coordinates past the end are 0 on both sides.
fn held_q(start: u32, t: u32) -> vec4f {
  if (t >= HELD) { return vec4f(); }
  return texel_q(start + t);
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let d_texels = params.d / 4u;
  let e_texels = params.e / 4u;
  let slices = (e_texels + 15u) / 16u;
  let row_groups = (params.n + 31u) / 32u;
  let local_batch = group / (slices * row_groups);
  let texel0 = group % slices * 16u;
  // Rows past the end repeat the last one and are not stored.
  let last = params.n - 1u;
  let row_a = group / slices % row_groups * 32u + thread;
  let row_b = row_a + 8u;
  let row_c = row_a + 16u;
  let row_d = row_a + 24u;
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let qa_from = params.q_at / 4u + (local_batch * params.n + min(row_a, last)) * d_texels;
  let qb_from = params.q_at / 4u + (local_batch * params.n + min(row_b, last)) * d_texels;
  let qc_from = params.q_at / 4u + (local_batch * params.n + min(row_c, last)) * d_texels;
  let qd_from = params.q_at / 4u + (local_batch * params.n + min(row_d, last)) * d_texels;
  let k_from = params.k_at / 4u + local_batch * params.m * d_texels;
  let v_from = params.v_at / 4u + local_batch * params.m * e_texels;
  let key_mask_from = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h + params.key_from;
  let mask_from = params.mask_at + b * params.mask_b + h * params.mask_h + params.key_from;
  var bandwidth = 1.0;
  if (METRIC != 0u) { bandwidth = lambda[params.lambda_at + h % params.bandwidths]; }

  let qa0 = held_q(qa_from, 0u); let qb0 = held_q(qb_from, 0u); let qc0 = held_q(qc_from, 0u); let qd0 = held_q(qd_from, 0u);
  let qa1 = held_q(qa_from, 1u); let qb1 = held_q(qb_from, 1u); let qc1 = held_q(qc_from, 1u); let qd1 = held_q(qd_from, 1u);
  let qa2 = held_q(qa_from, 2u); let qb2 = held_q(qb_from, 2u); let qc2 = held_q(qc_from, 2u); let qd2 = held_q(qd_from, 2u);
  let qa3 = held_q(qa_from, 3u); let qb3 = held_q(qb_from, 3u); let qc3 = held_q(qc_from, 3u); let qd3 = held_q(qd_from, 3u);
  let qa4 = held_q(qa_from, 4u); let qb4 = held_q(qb_from, 4u); let qc4 = held_q(qc_from, 4u); let qd4 = held_q(qd_from, 4u);
  let qa5 = held_q(qa_from, 5u); let qb5 = held_q(qb_from, 5u); let qc5 = held_q(qc_from, 5u); let qd5 = held_q(qd_from, 5u);
  let qa6 = held_q(qa_from, 6u); let qb6 = held_q(qb_from, 6u); let qc6 = held_q(qc_from, 6u); let qd6 = held_q(qd_from, 6u);
  let qa7 = held_q(qa_from, 7u); let qb7 = held_q(qb_from, 7u); let qc7 = held_q(qc_from, 7u); let qd7 = held_q(qd_from, 7u);
  let qa8 = held_q(qa_from, 8u); let qb8 = held_q(qb_from, 8u); let qc8 = held_q(qc_from, 8u); let qd8 = held_q(qd_from, 8u);
  let qa9 = held_q(qa_from, 9u); let qb9 = held_q(qb_from, 9u); let qc9 = held_q(qc_from, 9u); let qd9 = held_q(qd_from, 9u);
  let qa10 = held_q(qa_from, 10u); let qb10 = held_q(qb_from, 10u); let qc10 = held_q(qc_from, 10u); let qd10 = held_q(qd_from, 10u);
  let qa11 = held_q(qa_from, 11u); let qb11 = held_q(qb_from, 11u); let qc11 = held_q(qc_from, 11u); let qd11 = held_q(qd_from, 11u);
  let qa12 = held_q(qa_from, 12u); let qb12 = held_q(qb_from, 12u); let qc12 = held_q(qc_from, 12u); let qd12 = held_q(qd_from, 12u);
  let qa13 = held_q(qa_from, 13u); let qb13 = held_q(qb_from, 13u); let qc13 = held_q(qc_from, 13u); let qd13 = held_q(qd_from, 13u);
  let qa14 = held_q(qa_from, 14u); let qb14 = held_q(qb_from, 14u); let qc14 = held_q(qc_from, 14u); let qd14 = held_q(qd_from, 14u);
  let qa15 = held_q(qa_from, 15u); let qb15 = held_q(qb_from, 15u); let qc15 = held_q(qc_from, 15u); let qd15 = held_q(qd_from, 15u);
  var a0 = vec4f(); var b0 = vec4f(); var c0 = vec4f(); var d0 = vec4f();
  var a1 = vec4f(); var b1 = vec4f(); var c1 = vec4f(); var d1 = vec4f();
  var a2 = vec4f(); var b2 = vec4f(); var c2 = vec4f(); var d2 = vec4f();
  var a3 = vec4f(); var b3 = vec4f(); var c3 = vec4f(); var d3 = vec4f();
  var a4 = vec4f(); var b4 = vec4f(); var c4 = vec4f(); var d4 = vec4f();
  var a5 = vec4f(); var b5 = vec4f(); var c5 = vec4f(); var d5 = vec4f();
  var a6 = vec4f(); var b6 = vec4f(); var c6 = vec4f(); var d6 = vec4f();
  var a7 = vec4f(); var b7 = vec4f(); var c7 = vec4f(); var d7 = vec4f();
  var a8 = vec4f(); var b8 = vec4f(); var c8 = vec4f(); var d8 = vec4f();
  var a9 = vec4f(); var b9 = vec4f(); var c9 = vec4f(); var d9 = vec4f();
  var a10 = vec4f(); var b10 = vec4f(); var c10 = vec4f(); var d10 = vec4f();
  var a11 = vec4f(); var b11 = vec4f(); var c11 = vec4f(); var d11 = vec4f();
  var a12 = vec4f(); var b12 = vec4f(); var c12 = vec4f(); var d12 = vec4f();
  var a13 = vec4f(); var b13 = vec4f(); var c13 = vec4f(); var d13 = vec4f();
  var a14 = vec4f(); var b14 = vec4f(); var c14 = vec4f(); var d14 = vec4f();
  var a15 = vec4f(); var b15 = vec4f(); var c15 = vec4f(); var d15 = vec4f();
  var shift_a = NO_KEY; var total_a = 0.0;
  var shift_b = NO_KEY; var total_b = 0.0;
  var shift_c = NO_KEY; var total_c = 0.0;
  var shift_d = NO_KEY; var total_d = 0.0;

  for (var key = 0u; key < params.m; key++) {
    if (!key_is_kept(key_mask_from, key)) { continue; }
    let at = k_from + key * d_texels;
    var sum_a = vec4f(); var sum_b = vec4f(); var sum_c = vec4f(); var sum_d = vec4f();
    if (HELD > 0u) { let x = texel_k(at + 0u); sum_a += pair(qa0, x); sum_b += pair(qb0, x); sum_c += pair(qc0, x); sum_d += pair(qd0, x); }
    if (HELD > 1u) { let x = texel_k(at + 1u); sum_a += pair(qa1, x); sum_b += pair(qb1, x); sum_c += pair(qc1, x); sum_d += pair(qd1, x); }
    if (HELD > 2u) { let x = texel_k(at + 2u); sum_a += pair(qa2, x); sum_b += pair(qb2, x); sum_c += pair(qc2, x); sum_d += pair(qd2, x); }
    if (HELD > 3u) { let x = texel_k(at + 3u); sum_a += pair(qa3, x); sum_b += pair(qb3, x); sum_c += pair(qc3, x); sum_d += pair(qd3, x); }
    if (HELD > 4u) { let x = texel_k(at + 4u); sum_a += pair(qa4, x); sum_b += pair(qb4, x); sum_c += pair(qc4, x); sum_d += pair(qd4, x); }
    if (HELD > 5u) { let x = texel_k(at + 5u); sum_a += pair(qa5, x); sum_b += pair(qb5, x); sum_c += pair(qc5, x); sum_d += pair(qd5, x); }
    if (HELD > 6u) { let x = texel_k(at + 6u); sum_a += pair(qa6, x); sum_b += pair(qb6, x); sum_c += pair(qc6, x); sum_d += pair(qd6, x); }
    if (HELD > 7u) { let x = texel_k(at + 7u); sum_a += pair(qa7, x); sum_b += pair(qb7, x); sum_c += pair(qc7, x); sum_d += pair(qd7, x); }
    if (HELD > 8u) { let x = texel_k(at + 8u); sum_a += pair(qa8, x); sum_b += pair(qb8, x); sum_c += pair(qc8, x); sum_d += pair(qd8, x); }
    if (HELD > 9u) { let x = texel_k(at + 9u); sum_a += pair(qa9, x); sum_b += pair(qb9, x); sum_c += pair(qc9, x); sum_d += pair(qd9, x); }
    if (HELD > 10u) { let x = texel_k(at + 10u); sum_a += pair(qa10, x); sum_b += pair(qb10, x); sum_c += pair(qc10, x); sum_d += pair(qd10, x); }
    if (HELD > 11u) { let x = texel_k(at + 11u); sum_a += pair(qa11, x); sum_b += pair(qb11, x); sum_c += pair(qc11, x); sum_d += pair(qd11, x); }
    if (HELD > 12u) { let x = texel_k(at + 12u); sum_a += pair(qa12, x); sum_b += pair(qb12, x); sum_c += pair(qc12, x); sum_d += pair(qd12, x); }
    if (HELD > 13u) { let x = texel_k(at + 13u); sum_a += pair(qa13, x); sum_b += pair(qb13, x); sum_c += pair(qc13, x); sum_d += pair(qd13, x); }
    if (HELD > 14u) { let x = texel_k(at + 14u); sum_a += pair(qa14, x); sum_b += pair(qb14, x); sum_c += pair(qc14, x); sum_d += pair(qd14, x); }
    if (HELD > 15u) { let x = texel_k(at + 15u); sum_a += pair(qa15, x); sum_b += pair(qb15, x); sum_c += pair(qc15, x); sum_d += pair(qd15, x); }
    for (var t = 16u; t < d_texels; t++) {
      let x = texel_k(at + t);
      sum_a += pair(texel_q(qa_from + t), x);
      sum_b += pair(texel_q(qb_from + t), x);
      sum_c += pair(texel_q(qc_from + t), x);
      sum_d += pair(texel_q(qd_from + t), x);
    }
    let sums = vec4f((sum_a.x + sum_a.y) + (sum_a.z + sum_a.w), (sum_b.x + sum_b.y) + (sum_b.z + sum_b.w), (sum_c.x + sum_c.y) + (sum_c.z + sum_c.w), (sum_d.x + sum_d.y) + (sum_d.z + sum_d.w));
    let exponents = exponent(sums, bandwidth);
    let kept_a = pair_is_kept(mask_from, min(row_a, last), key);
    let kept_b = pair_is_kept(mask_from, min(row_b, last), key);
    let kept_c = pair_is_kept(mask_from, min(row_c, last), key);
    let kept_d = pair_is_kept(mask_from, min(row_d, last), key);
    // The largest exponent settles after a few keys, so this is rarely taken.
    if ((kept_a && exponents.x > shift_a) || (kept_b && exponents.y > shift_b) || (kept_c && exponents.z > shift_c) || (kept_d && exponents.w > shift_d)) {
      let top_a = select(shift_a, max(shift_a, exponents.x), kept_a);
      let keep_a = exp_accurate(shift_a - top_a);
      shift_a = top_a;
      total_a *= keep_a;
      let top_b = select(shift_b, max(shift_b, exponents.y), kept_b);
      let keep_b = exp_accurate(shift_b - top_b);
      shift_b = top_b;
      total_b *= keep_b;
      let top_c = select(shift_c, max(shift_c, exponents.z), kept_c);
      let keep_c = exp_accurate(shift_c - top_c);
      shift_c = top_c;
      total_c *= keep_c;
      let top_d = select(shift_d, max(shift_d, exponents.w), kept_d);
      let keep_d = exp_accurate(shift_d - top_d);
      shift_d = top_d;
      total_d *= keep_d;
      a0 *= keep_a; b0 *= keep_b; c0 *= keep_c; d0 *= keep_d;
      a1 *= keep_a; b1 *= keep_b; c1 *= keep_c; d1 *= keep_d;
      a2 *= keep_a; b2 *= keep_b; c2 *= keep_c; d2 *= keep_d;
      a3 *= keep_a; b3 *= keep_b; c3 *= keep_c; d3 *= keep_d;
      a4 *= keep_a; b4 *= keep_b; c4 *= keep_c; d4 *= keep_d;
      a5 *= keep_a; b5 *= keep_b; c5 *= keep_c; d5 *= keep_d;
      a6 *= keep_a; b6 *= keep_b; c6 *= keep_c; d6 *= keep_d;
      a7 *= keep_a; b7 *= keep_b; c7 *= keep_c; d7 *= keep_d;
      a8 *= keep_a; b8 *= keep_b; c8 *= keep_c; d8 *= keep_d;
      a9 *= keep_a; b9 *= keep_b; c9 *= keep_c; d9 *= keep_d;
      a10 *= keep_a; b10 *= keep_b; c10 *= keep_c; d10 *= keep_d;
      a11 *= keep_a; b11 *= keep_b; c11 *= keep_c; d11 *= keep_d;
      a12 *= keep_a; b12 *= keep_b; c12 *= keep_c; d12 *= keep_d;
      a13 *= keep_a; b13 *= keep_b; c13 *= keep_c; d13 *= keep_d;
      a14 *= keep_a; b14 *= keep_b; c14 *= keep_c; d14 *= keep_d;
      a15 *= keep_a; b15 *= keep_b; c15 *= keep_c; d15 *= keep_d;
    }
    let weight_a = select(0.0, exp_accurate(exponents.x - shift_a), kept_a);
    total_a += weight_a;
    let weight_b = select(0.0, exp_accurate(exponents.y - shift_b), kept_b);
    total_b += weight_b;
    let weight_c = select(0.0, exp_accurate(exponents.z - shift_c), kept_c);
    total_c += weight_c;
    let weight_d = select(0.0, exp_accurate(exponents.w - shift_d), kept_d);
    total_d += weight_d;
    let line = v_from + key * e_texels;
    if (WIDTH > 0u) { let x = texel_v(line + min(texel0 + 0u, e_texels - 1u)); a0 += weighed(weight_a, x); b0 += weighed(weight_b, x); c0 += weighed(weight_c, x); d0 += weighed(weight_d, x); }
    if (WIDTH > 1u) { let x = texel_v(line + min(texel0 + 1u, e_texels - 1u)); a1 += weighed(weight_a, x); b1 += weighed(weight_b, x); c1 += weighed(weight_c, x); d1 += weighed(weight_d, x); }
    if (WIDTH > 2u) { let x = texel_v(line + min(texel0 + 2u, e_texels - 1u)); a2 += weighed(weight_a, x); b2 += weighed(weight_b, x); c2 += weighed(weight_c, x); d2 += weighed(weight_d, x); }
    if (WIDTH > 3u) { let x = texel_v(line + min(texel0 + 3u, e_texels - 1u)); a3 += weighed(weight_a, x); b3 += weighed(weight_b, x); c3 += weighed(weight_c, x); d3 += weighed(weight_d, x); }
    if (WIDTH > 4u) { let x = texel_v(line + min(texel0 + 4u, e_texels - 1u)); a4 += weighed(weight_a, x); b4 += weighed(weight_b, x); c4 += weighed(weight_c, x); d4 += weighed(weight_d, x); }
    if (WIDTH > 5u) { let x = texel_v(line + min(texel0 + 5u, e_texels - 1u)); a5 += weighed(weight_a, x); b5 += weighed(weight_b, x); c5 += weighed(weight_c, x); d5 += weighed(weight_d, x); }
    if (WIDTH > 6u) { let x = texel_v(line + min(texel0 + 6u, e_texels - 1u)); a6 += weighed(weight_a, x); b6 += weighed(weight_b, x); c6 += weighed(weight_c, x); d6 += weighed(weight_d, x); }
    if (WIDTH > 7u) { let x = texel_v(line + min(texel0 + 7u, e_texels - 1u)); a7 += weighed(weight_a, x); b7 += weighed(weight_b, x); c7 += weighed(weight_c, x); d7 += weighed(weight_d, x); }
    if (WIDTH > 8u) { let x = texel_v(line + min(texel0 + 8u, e_texels - 1u)); a8 += weighed(weight_a, x); b8 += weighed(weight_b, x); c8 += weighed(weight_c, x); d8 += weighed(weight_d, x); }
    if (WIDTH > 9u) { let x = texel_v(line + min(texel0 + 9u, e_texels - 1u)); a9 += weighed(weight_a, x); b9 += weighed(weight_b, x); c9 += weighed(weight_c, x); d9 += weighed(weight_d, x); }
    if (WIDTH > 10u) { let x = texel_v(line + min(texel0 + 10u, e_texels - 1u)); a10 += weighed(weight_a, x); b10 += weighed(weight_b, x); c10 += weighed(weight_c, x); d10 += weighed(weight_d, x); }
    if (WIDTH > 11u) { let x = texel_v(line + min(texel0 + 11u, e_texels - 1u)); a11 += weighed(weight_a, x); b11 += weighed(weight_b, x); c11 += weighed(weight_c, x); d11 += weighed(weight_d, x); }
    if (WIDTH > 12u) { let x = texel_v(line + min(texel0 + 12u, e_texels - 1u)); a12 += weighed(weight_a, x); b12 += weighed(weight_b, x); c12 += weighed(weight_c, x); d12 += weighed(weight_d, x); }
    if (WIDTH > 13u) { let x = texel_v(line + min(texel0 + 13u, e_texels - 1u)); a13 += weighed(weight_a, x); b13 += weighed(weight_b, x); c13 += weighed(weight_c, x); d13 += weighed(weight_d, x); }
    if (WIDTH > 14u) { let x = texel_v(line + min(texel0 + 14u, e_texels - 1u)); a14 += weighed(weight_a, x); b14 += weighed(weight_b, x); c14 += weighed(weight_c, x); d14 += weighed(weight_d, x); }
    if (WIDTH > 15u) { let x = texel_v(line + min(texel0 + 15u, e_texels - 1u)); a15 += weighed(weight_a, x); b15 += weighed(weight_b, x); c15 += weighed(weight_c, x); d15 += weighed(weight_d, x); }
  }

  if (row_a < params.n) {
    let at = params.out_at + (local_batch * params.n + row_a) * params.p;
    if (texel0 == 0u) { store_state(at, shift_a, total_a); }
    if (WIDTH > 0u) { store4(at, 4u * texel0 + 0u, finished(a0, shift_a, total_a)); }
    if (WIDTH > 1u) { store4(at, 4u * texel0 + 4u, finished(a1, shift_a, total_a)); }
    if (WIDTH > 2u) { store4(at, 4u * texel0 + 8u, finished(a2, shift_a, total_a)); }
    if (WIDTH > 3u) { store4(at, 4u * texel0 + 12u, finished(a3, shift_a, total_a)); }
    if (WIDTH > 4u) { store4(at, 4u * texel0 + 16u, finished(a4, shift_a, total_a)); }
    if (WIDTH > 5u) { store4(at, 4u * texel0 + 20u, finished(a5, shift_a, total_a)); }
    if (WIDTH > 6u) { store4(at, 4u * texel0 + 24u, finished(a6, shift_a, total_a)); }
    if (WIDTH > 7u) { store4(at, 4u * texel0 + 28u, finished(a7, shift_a, total_a)); }
    if (WIDTH > 8u) { store4(at, 4u * texel0 + 32u, finished(a8, shift_a, total_a)); }
    if (WIDTH > 9u) { store4(at, 4u * texel0 + 36u, finished(a9, shift_a, total_a)); }
    if (WIDTH > 10u) { store4(at, 4u * texel0 + 40u, finished(a10, shift_a, total_a)); }
    if (WIDTH > 11u) { store4(at, 4u * texel0 + 44u, finished(a11, shift_a, total_a)); }
    if (WIDTH > 12u) { store4(at, 4u * texel0 + 48u, finished(a12, shift_a, total_a)); }
    if (WIDTH > 13u) { store4(at, 4u * texel0 + 52u, finished(a13, shift_a, total_a)); }
    if (WIDTH > 14u) { store4(at, 4u * texel0 + 56u, finished(a14, shift_a, total_a)); }
    if (WIDTH > 15u) { store4(at, 4u * texel0 + 60u, finished(a15, shift_a, total_a)); }
  }
  if (row_b < params.n) {
    let at = params.out_at + (local_batch * params.n + row_b) * params.p;
    if (texel0 == 0u) { store_state(at, shift_b, total_b); }
    if (WIDTH > 0u) { store4(at, 4u * texel0 + 0u, finished(b0, shift_b, total_b)); }
    if (WIDTH > 1u) { store4(at, 4u * texel0 + 4u, finished(b1, shift_b, total_b)); }
    if (WIDTH > 2u) { store4(at, 4u * texel0 + 8u, finished(b2, shift_b, total_b)); }
    if (WIDTH > 3u) { store4(at, 4u * texel0 + 12u, finished(b3, shift_b, total_b)); }
    if (WIDTH > 4u) { store4(at, 4u * texel0 + 16u, finished(b4, shift_b, total_b)); }
    if (WIDTH > 5u) { store4(at, 4u * texel0 + 20u, finished(b5, shift_b, total_b)); }
    if (WIDTH > 6u) { store4(at, 4u * texel0 + 24u, finished(b6, shift_b, total_b)); }
    if (WIDTH > 7u) { store4(at, 4u * texel0 + 28u, finished(b7, shift_b, total_b)); }
    if (WIDTH > 8u) { store4(at, 4u * texel0 + 32u, finished(b8, shift_b, total_b)); }
    if (WIDTH > 9u) { store4(at, 4u * texel0 + 36u, finished(b9, shift_b, total_b)); }
    if (WIDTH > 10u) { store4(at, 4u * texel0 + 40u, finished(b10, shift_b, total_b)); }
    if (WIDTH > 11u) { store4(at, 4u * texel0 + 44u, finished(b11, shift_b, total_b)); }
    if (WIDTH > 12u) { store4(at, 4u * texel0 + 48u, finished(b12, shift_b, total_b)); }
    if (WIDTH > 13u) { store4(at, 4u * texel0 + 52u, finished(b13, shift_b, total_b)); }
    if (WIDTH > 14u) { store4(at, 4u * texel0 + 56u, finished(b14, shift_b, total_b)); }
    if (WIDTH > 15u) { store4(at, 4u * texel0 + 60u, finished(b15, shift_b, total_b)); }
  }
  if (row_c < params.n) {
    let at = params.out_at + (local_batch * params.n + row_c) * params.p;
    if (texel0 == 0u) { store_state(at, shift_c, total_c); }
    if (WIDTH > 0u) { store4(at, 4u * texel0 + 0u, finished(c0, shift_c, total_c)); }
    if (WIDTH > 1u) { store4(at, 4u * texel0 + 4u, finished(c1, shift_c, total_c)); }
    if (WIDTH > 2u) { store4(at, 4u * texel0 + 8u, finished(c2, shift_c, total_c)); }
    if (WIDTH > 3u) { store4(at, 4u * texel0 + 12u, finished(c3, shift_c, total_c)); }
    if (WIDTH > 4u) { store4(at, 4u * texel0 + 16u, finished(c4, shift_c, total_c)); }
    if (WIDTH > 5u) { store4(at, 4u * texel0 + 20u, finished(c5, shift_c, total_c)); }
    if (WIDTH > 6u) { store4(at, 4u * texel0 + 24u, finished(c6, shift_c, total_c)); }
    if (WIDTH > 7u) { store4(at, 4u * texel0 + 28u, finished(c7, shift_c, total_c)); }
    if (WIDTH > 8u) { store4(at, 4u * texel0 + 32u, finished(c8, shift_c, total_c)); }
    if (WIDTH > 9u) { store4(at, 4u * texel0 + 36u, finished(c9, shift_c, total_c)); }
    if (WIDTH > 10u) { store4(at, 4u * texel0 + 40u, finished(c10, shift_c, total_c)); }
    if (WIDTH > 11u) { store4(at, 4u * texel0 + 44u, finished(c11, shift_c, total_c)); }
    if (WIDTH > 12u) { store4(at, 4u * texel0 + 48u, finished(c12, shift_c, total_c)); }
    if (WIDTH > 13u) { store4(at, 4u * texel0 + 52u, finished(c13, shift_c, total_c)); }
    if (WIDTH > 14u) { store4(at, 4u * texel0 + 56u, finished(c14, shift_c, total_c)); }
    if (WIDTH > 15u) { store4(at, 4u * texel0 + 60u, finished(c15, shift_c, total_c)); }
  }
  if (row_d < params.n) {
    let at = params.out_at + (local_batch * params.n + row_d) * params.p;
    if (texel0 == 0u) { store_state(at, shift_d, total_d); }
    if (WIDTH > 0u) { store4(at, 4u * texel0 + 0u, finished(d0, shift_d, total_d)); }
    if (WIDTH > 1u) { store4(at, 4u * texel0 + 4u, finished(d1, shift_d, total_d)); }
    if (WIDTH > 2u) { store4(at, 4u * texel0 + 8u, finished(d2, shift_d, total_d)); }
    if (WIDTH > 3u) { store4(at, 4u * texel0 + 12u, finished(d3, shift_d, total_d)); }
    if (WIDTH > 4u) { store4(at, 4u * texel0 + 16u, finished(d4, shift_d, total_d)); }
    if (WIDTH > 5u) { store4(at, 4u * texel0 + 20u, finished(d5, shift_d, total_d)); }
    if (WIDTH > 6u) { store4(at, 4u * texel0 + 24u, finished(d6, shift_d, total_d)); }
    if (WIDTH > 7u) { store4(at, 4u * texel0 + 28u, finished(d7, shift_d, total_d)); }
    if (WIDTH > 8u) { store4(at, 4u * texel0 + 32u, finished(d8, shift_d, total_d)); }
    if (WIDTH > 9u) { store4(at, 4u * texel0 + 36u, finished(d9, shift_d, total_d)); }
    if (WIDTH > 10u) { store4(at, 4u * texel0 + 40u, finished(d10, shift_d, total_d)); }
    if (WIDTH > 11u) { store4(at, 4u * texel0 + 44u, finished(d11, shift_d, total_d)); }
    if (WIDTH > 12u) { store4(at, 4u * texel0 + 48u, finished(d12, shift_d, total_d)); }
    if (WIDTH > 13u) { store4(at, 4u * texel0 + 52u, finished(d13, shift_d, total_d)); }
    if (WIDTH > 14u) { store4(at, 4u * texel0 + 56u, finished(d14, shift_d, total_d)); }
    if (WIDTH > 15u) { store4(at, 4u * texel0 + 60u, finished(d15, shift_d, total_d)); }
  }
}
