// Four query rows per thread, 8 threads per group, for software drivers: queries and results stay in registers, keys and
// values come as lines of texels that all threads share, in the way of the variant (`line_of_key`, `line_of_value`). Up to
// 64 coordinates of the queries are in registers (HELD texels of 4); beyond them both sides are read again. A group
// makes 64 value columns (WIDTH texels, fewer where the values are narrower).
@group(0) @binding(1) var q: texture_2d<f32>; // [b, h, n, d]
@group(0) @binding(2) var k: texture_2d<f32>; // [b, h, m, d]
@group(0) @binding(3) var v: texture_2d<f32>; // [b, h, m, e]
@group(0) @binding(4) var<storage, read> lambda: array<f32>; // [h] or [1]
@group(0) @binding(5) var<storage, read> key_mask: array<u32>; // bytes [b, h, mm]
@group(0) @binding(6) var<storage, read> mask: array<u32>; // bytes [b, h, n, mm]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [b, h, n, p]

// Sixteen texels, written out because a dynamically indexed array would live in memory.
struct Line {
  v0: vec4f, v1: vec4f, v2: vec4f, v3: vec4f, v4: vec4f, v5: vec4f, v6: vec4f, v7: vec4f,
  v8: vec4f, v9: vec4f, v10: vec4f, v11: vec4f, v12: vec4f, v13: vec4f, v14: vec4f, v15: vec4f,
}

fn texel_q(at: u32) -> vec4f { return textureLoad(q, vec2u(at & 2047u, at >> 11u), 0); }
fn texel_k(at: u32) -> vec4f { return textureLoad(k, vec2u(at & 2047u, at >> 11u), 0); }
fn texel_v(at: u32) -> vec4f { return textureLoad(v, vec2u(at & 2047u, at >> 11u), 0); }

// Coordinates past the end are 0 on both sides.
fn held_q(start: u32, t: u32) -> vec4f {
  if (t >= HELD) { return vec4f(); }
  return texel_q(start + t);
}

fn attend(id: vec3u, count: vec3u, thread: u32, lane: u32) {
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
  var shifts = vec4f(NO_KEY);
  var totals = vec4f();
  // Sixteen keys at a time: their exponents first, then one change of the shifts, then their values. A change for every key would take
  // half of the time, because these drivers run through what is masked out.
  var kept_exponents: array<vec4f, 16>;
  for (var first = 0u; first < params.m; first += 16u) {
    let end = min(first + 16u, params.m);
    var tops = shifts;
    for (var key = first; key < end; key++) {
      kept_exponents[key - first] = vec4f(NO_KEY);
      if (!key_is_kept(key_mask_from, key)) { continue; }
      let at = k_from + key * d_texels;
      let key_line = line_of_key(at, lane);
      var sum_a = vec4f(); var sum_b = vec4f(); var sum_c = vec4f(); var sum_d = vec4f();
      if (HELD > 0u) { let x = key_line.v0; sum_a += pair(qa0, x); sum_b += pair(qb0, x); sum_c += pair(qc0, x); sum_d += pair(qd0, x); }
      if (HELD > 1u) { let x = key_line.v1; sum_a += pair(qa1, x); sum_b += pair(qb1, x); sum_c += pair(qc1, x); sum_d += pair(qd1, x); }
      if (HELD > 2u) { let x = key_line.v2; sum_a += pair(qa2, x); sum_b += pair(qb2, x); sum_c += pair(qc2, x); sum_d += pair(qd2, x); }
      if (HELD > 3u) { let x = key_line.v3; sum_a += pair(qa3, x); sum_b += pair(qb3, x); sum_c += pair(qc3, x); sum_d += pair(qd3, x); }
      if (HELD > 4u) { let x = key_line.v4; sum_a += pair(qa4, x); sum_b += pair(qb4, x); sum_c += pair(qc4, x); sum_d += pair(qd4, x); }
      if (HELD > 5u) { let x = key_line.v5; sum_a += pair(qa5, x); sum_b += pair(qb5, x); sum_c += pair(qc5, x); sum_d += pair(qd5, x); }
      if (HELD > 6u) { let x = key_line.v6; sum_a += pair(qa6, x); sum_b += pair(qb6, x); sum_c += pair(qc6, x); sum_d += pair(qd6, x); }
      if (HELD > 7u) { let x = key_line.v7; sum_a += pair(qa7, x); sum_b += pair(qb7, x); sum_c += pair(qc7, x); sum_d += pair(qd7, x); }
      if (HELD > 8u) { let x = key_line.v8; sum_a += pair(qa8, x); sum_b += pair(qb8, x); sum_c += pair(qc8, x); sum_d += pair(qd8, x); }
      if (HELD > 9u) { let x = key_line.v9; sum_a += pair(qa9, x); sum_b += pair(qb9, x); sum_c += pair(qc9, x); sum_d += pair(qd9, x); }
      if (HELD > 10u) { let x = key_line.v10; sum_a += pair(qa10, x); sum_b += pair(qb10, x); sum_c += pair(qc10, x); sum_d += pair(qd10, x); }
      if (HELD > 11u) { let x = key_line.v11; sum_a += pair(qa11, x); sum_b += pair(qb11, x); sum_c += pair(qc11, x); sum_d += pair(qd11, x); }
      if (HELD > 12u) { let x = key_line.v12; sum_a += pair(qa12, x); sum_b += pair(qb12, x); sum_c += pair(qc12, x); sum_d += pair(qd12, x); }
      if (HELD > 13u) { let x = key_line.v13; sum_a += pair(qa13, x); sum_b += pair(qb13, x); sum_c += pair(qc13, x); sum_d += pair(qd13, x); }
      if (HELD > 14u) { let x = key_line.v14; sum_a += pair(qa14, x); sum_b += pair(qb14, x); sum_c += pair(qc14, x); sum_d += pair(qd14, x); }
      if (HELD > 15u) { let x = key_line.v15; sum_a += pair(qa15, x); sum_b += pair(qb15, x); sum_c += pair(qc15, x); sum_d += pair(qd15, x); }
      for (var t = 16u; t < d_texels; t++) {
        let x = texel_k(at + t);
        sum_a += pair(texel_q(qa_from + t), x);
        sum_b += pair(texel_q(qb_from + t), x);
        sum_c += pair(texel_q(qc_from + t), x);
        sum_d += pair(texel_q(qd_from + t), x);
      }
      let sums = vec4f((sum_a.x + sum_a.y) + (sum_a.z + sum_a.w), (sum_b.x + sum_b.y) + (sum_b.z + sum_b.w), (sum_c.x + sum_c.y) + (sum_c.z + sum_c.w), (sum_d.x + sum_d.y) + (sum_d.z + sum_d.w));
      let exponents = exponent(sums, bandwidth);
      let kept = vec4<bool>(
        pair_is_kept(mask_from, min(row_a, last), key), pair_is_kept(mask_from, min(row_b, last), key),
        pair_is_kept(mask_from, min(row_c, last), key), pair_is_kept(mask_from, min(row_d, last), key),
      );
      kept_exponents[key - first] = select(vec4f(NO_KEY), exponents, kept);
      tops = max(tops, kept_exponents[key - first]);
    }
    let keep = exp4(shifts - tops);
    shifts = tops;
    totals *= keep;
    a0 *= keep.x; b0 *= keep.y; c0 *= keep.z; d0 *= keep.w;
    a1 *= keep.x; b1 *= keep.y; c1 *= keep.z; d1 *= keep.w;
    a2 *= keep.x; b2 *= keep.y; c2 *= keep.z; d2 *= keep.w;
    a3 *= keep.x; b3 *= keep.y; c3 *= keep.z; d3 *= keep.w;
    a4 *= keep.x; b4 *= keep.y; c4 *= keep.z; d4 *= keep.w;
    a5 *= keep.x; b5 *= keep.y; c5 *= keep.z; d5 *= keep.w;
    a6 *= keep.x; b6 *= keep.y; c6 *= keep.z; d6 *= keep.w;
    a7 *= keep.x; b7 *= keep.y; c7 *= keep.z; d7 *= keep.w;
    a8 *= keep.x; b8 *= keep.y; c8 *= keep.z; d8 *= keep.w;
    a9 *= keep.x; b9 *= keep.y; c9 *= keep.z; d9 *= keep.w;
    a10 *= keep.x; b10 *= keep.y; c10 *= keep.z; d10 *= keep.w;
    a11 *= keep.x; b11 *= keep.y; c11 *= keep.z; d11 *= keep.w;
    a12 *= keep.x; b12 *= keep.y; c12 *= keep.z; d12 *= keep.w;
    a13 *= keep.x; b13 *= keep.y; c13 *= keep.z; d13 *= keep.w;
    a14 *= keep.x; b14 *= keep.y; c14 *= keep.z; d14 *= keep.w;
    a15 *= keep.x; b15 *= keep.y; c15 *= keep.z; d15 *= keep.w;
    for (var key = first; key < end; key++) {
      if (!key_is_kept(key_mask_from, key)) { continue; }
      let exponents = kept_exponents[key - first];
      let weights = select(exp4(exponents - shifts), vec4f(), exponents == vec4f(NO_KEY));
      totals += weights;
      let value_line = line_of_value(v_from + key * e_texels, texel0, e_texels - 1u, lane);
      if (WIDTH > 0u) { let x = value_line.v0; a0 += weighed(weights.x, x); b0 += weighed(weights.y, x); c0 += weighed(weights.z, x); d0 += weighed(weights.w, x); }
      if (WIDTH > 1u) { let x = value_line.v1; a1 += weighed(weights.x, x); b1 += weighed(weights.y, x); c1 += weighed(weights.z, x); d1 += weighed(weights.w, x); }
      if (WIDTH > 2u) { let x = value_line.v2; a2 += weighed(weights.x, x); b2 += weighed(weights.y, x); c2 += weighed(weights.z, x); d2 += weighed(weights.w, x); }
      if (WIDTH > 3u) { let x = value_line.v3; a3 += weighed(weights.x, x); b3 += weighed(weights.y, x); c3 += weighed(weights.z, x); d3 += weighed(weights.w, x); }
      if (WIDTH > 4u) { let x = value_line.v4; a4 += weighed(weights.x, x); b4 += weighed(weights.y, x); c4 += weighed(weights.z, x); d4 += weighed(weights.w, x); }
      if (WIDTH > 5u) { let x = value_line.v5; a5 += weighed(weights.x, x); b5 += weighed(weights.y, x); c5 += weighed(weights.z, x); d5 += weighed(weights.w, x); }
      if (WIDTH > 6u) { let x = value_line.v6; a6 += weighed(weights.x, x); b6 += weighed(weights.y, x); c6 += weighed(weights.z, x); d6 += weighed(weights.w, x); }
      if (WIDTH > 7u) { let x = value_line.v7; a7 += weighed(weights.x, x); b7 += weighed(weights.y, x); c7 += weighed(weights.z, x); d7 += weighed(weights.w, x); }
      if (WIDTH > 8u) { let x = value_line.v8; a8 += weighed(weights.x, x); b8 += weighed(weights.y, x); c8 += weighed(weights.z, x); d8 += weighed(weights.w, x); }
      if (WIDTH > 9u) { let x = value_line.v9; a9 += weighed(weights.x, x); b9 += weighed(weights.y, x); c9 += weighed(weights.z, x); d9 += weighed(weights.w, x); }
      if (WIDTH > 10u) { let x = value_line.v10; a10 += weighed(weights.x, x); b10 += weighed(weights.y, x); c10 += weighed(weights.z, x); d10 += weighed(weights.w, x); }
      if (WIDTH > 11u) { let x = value_line.v11; a11 += weighed(weights.x, x); b11 += weighed(weights.y, x); c11 += weighed(weights.z, x); d11 += weighed(weights.w, x); }
      if (WIDTH > 12u) { let x = value_line.v12; a12 += weighed(weights.x, x); b12 += weighed(weights.y, x); c12 += weighed(weights.z, x); d12 += weighed(weights.w, x); }
      if (WIDTH > 13u) { let x = value_line.v13; a13 += weighed(weights.x, x); b13 += weighed(weights.y, x); c13 += weighed(weights.z, x); d13 += weighed(weights.w, x); }
      if (WIDTH > 14u) { let x = value_line.v14; a14 += weighed(weights.x, x); b14 += weighed(weights.y, x); c14 += weighed(weights.z, x); d14 += weighed(weights.w, x); }
      if (WIDTH > 15u) { let x = value_line.v15; a15 += weighed(weights.x, x); b15 += weighed(weights.y, x); c15 += weighed(weights.z, x); d15 += weighed(weights.w, x); }
    }
  }

  if (row_a < params.n) {
    let at = params.out_at + (local_batch * params.n + row_a) * params.p;
    if (texel0 == 0u) { store_state(at, shifts.x, totals.x); }
    if (WIDTH > 0u) { store4(at, 4u * texel0 + 0u, finished(a0, shifts.x, totals.x)); }
    if (WIDTH > 1u) { store4(at, 4u * texel0 + 4u, finished(a1, shifts.x, totals.x)); }
    if (WIDTH > 2u) { store4(at, 4u * texel0 + 8u, finished(a2, shifts.x, totals.x)); }
    if (WIDTH > 3u) { store4(at, 4u * texel0 + 12u, finished(a3, shifts.x, totals.x)); }
    if (WIDTH > 4u) { store4(at, 4u * texel0 + 16u, finished(a4, shifts.x, totals.x)); }
    if (WIDTH > 5u) { store4(at, 4u * texel0 + 20u, finished(a5, shifts.x, totals.x)); }
    if (WIDTH > 6u) { store4(at, 4u * texel0 + 24u, finished(a6, shifts.x, totals.x)); }
    if (WIDTH > 7u) { store4(at, 4u * texel0 + 28u, finished(a7, shifts.x, totals.x)); }
    if (WIDTH > 8u) { store4(at, 4u * texel0 + 32u, finished(a8, shifts.x, totals.x)); }
    if (WIDTH > 9u) { store4(at, 4u * texel0 + 36u, finished(a9, shifts.x, totals.x)); }
    if (WIDTH > 10u) { store4(at, 4u * texel0 + 40u, finished(a10, shifts.x, totals.x)); }
    if (WIDTH > 11u) { store4(at, 4u * texel0 + 44u, finished(a11, shifts.x, totals.x)); }
    if (WIDTH > 12u) { store4(at, 4u * texel0 + 48u, finished(a12, shifts.x, totals.x)); }
    if (WIDTH > 13u) { store4(at, 4u * texel0 + 52u, finished(a13, shifts.x, totals.x)); }
    if (WIDTH > 14u) { store4(at, 4u * texel0 + 56u, finished(a14, shifts.x, totals.x)); }
    if (WIDTH > 15u) { store4(at, 4u * texel0 + 60u, finished(a15, shifts.x, totals.x)); }
  }
  if (row_b < params.n) {
    let at = params.out_at + (local_batch * params.n + row_b) * params.p;
    if (texel0 == 0u) { store_state(at, shifts.y, totals.y); }
    if (WIDTH > 0u) { store4(at, 4u * texel0 + 0u, finished(b0, shifts.y, totals.y)); }
    if (WIDTH > 1u) { store4(at, 4u * texel0 + 4u, finished(b1, shifts.y, totals.y)); }
    if (WIDTH > 2u) { store4(at, 4u * texel0 + 8u, finished(b2, shifts.y, totals.y)); }
    if (WIDTH > 3u) { store4(at, 4u * texel0 + 12u, finished(b3, shifts.y, totals.y)); }
    if (WIDTH > 4u) { store4(at, 4u * texel0 + 16u, finished(b4, shifts.y, totals.y)); }
    if (WIDTH > 5u) { store4(at, 4u * texel0 + 20u, finished(b5, shifts.y, totals.y)); }
    if (WIDTH > 6u) { store4(at, 4u * texel0 + 24u, finished(b6, shifts.y, totals.y)); }
    if (WIDTH > 7u) { store4(at, 4u * texel0 + 28u, finished(b7, shifts.y, totals.y)); }
    if (WIDTH > 8u) { store4(at, 4u * texel0 + 32u, finished(b8, shifts.y, totals.y)); }
    if (WIDTH > 9u) { store4(at, 4u * texel0 + 36u, finished(b9, shifts.y, totals.y)); }
    if (WIDTH > 10u) { store4(at, 4u * texel0 + 40u, finished(b10, shifts.y, totals.y)); }
    if (WIDTH > 11u) { store4(at, 4u * texel0 + 44u, finished(b11, shifts.y, totals.y)); }
    if (WIDTH > 12u) { store4(at, 4u * texel0 + 48u, finished(b12, shifts.y, totals.y)); }
    if (WIDTH > 13u) { store4(at, 4u * texel0 + 52u, finished(b13, shifts.y, totals.y)); }
    if (WIDTH > 14u) { store4(at, 4u * texel0 + 56u, finished(b14, shifts.y, totals.y)); }
    if (WIDTH > 15u) { store4(at, 4u * texel0 + 60u, finished(b15, shifts.y, totals.y)); }
  }
  if (row_c < params.n) {
    let at = params.out_at + (local_batch * params.n + row_c) * params.p;
    if (texel0 == 0u) { store_state(at, shifts.z, totals.z); }
    if (WIDTH > 0u) { store4(at, 4u * texel0 + 0u, finished(c0, shifts.z, totals.z)); }
    if (WIDTH > 1u) { store4(at, 4u * texel0 + 4u, finished(c1, shifts.z, totals.z)); }
    if (WIDTH > 2u) { store4(at, 4u * texel0 + 8u, finished(c2, shifts.z, totals.z)); }
    if (WIDTH > 3u) { store4(at, 4u * texel0 + 12u, finished(c3, shifts.z, totals.z)); }
    if (WIDTH > 4u) { store4(at, 4u * texel0 + 16u, finished(c4, shifts.z, totals.z)); }
    if (WIDTH > 5u) { store4(at, 4u * texel0 + 20u, finished(c5, shifts.z, totals.z)); }
    if (WIDTH > 6u) { store4(at, 4u * texel0 + 24u, finished(c6, shifts.z, totals.z)); }
    if (WIDTH > 7u) { store4(at, 4u * texel0 + 28u, finished(c7, shifts.z, totals.z)); }
    if (WIDTH > 8u) { store4(at, 4u * texel0 + 32u, finished(c8, shifts.z, totals.z)); }
    if (WIDTH > 9u) { store4(at, 4u * texel0 + 36u, finished(c9, shifts.z, totals.z)); }
    if (WIDTH > 10u) { store4(at, 4u * texel0 + 40u, finished(c10, shifts.z, totals.z)); }
    if (WIDTH > 11u) { store4(at, 4u * texel0 + 44u, finished(c11, shifts.z, totals.z)); }
    if (WIDTH > 12u) { store4(at, 4u * texel0 + 48u, finished(c12, shifts.z, totals.z)); }
    if (WIDTH > 13u) { store4(at, 4u * texel0 + 52u, finished(c13, shifts.z, totals.z)); }
    if (WIDTH > 14u) { store4(at, 4u * texel0 + 56u, finished(c14, shifts.z, totals.z)); }
    if (WIDTH > 15u) { store4(at, 4u * texel0 + 60u, finished(c15, shifts.z, totals.z)); }
  }
  if (row_d < params.n) {
    let at = params.out_at + (local_batch * params.n + row_d) * params.p;
    if (texel0 == 0u) { store_state(at, shifts.w, totals.w); }
    if (WIDTH > 0u) { store4(at, 4u * texel0 + 0u, finished(d0, shifts.w, totals.w)); }
    if (WIDTH > 1u) { store4(at, 4u * texel0 + 4u, finished(d1, shifts.w, totals.w)); }
    if (WIDTH > 2u) { store4(at, 4u * texel0 + 8u, finished(d2, shifts.w, totals.w)); }
    if (WIDTH > 3u) { store4(at, 4u * texel0 + 12u, finished(d3, shifts.w, totals.w)); }
    if (WIDTH > 4u) { store4(at, 4u * texel0 + 16u, finished(d4, shifts.w, totals.w)); }
    if (WIDTH > 5u) { store4(at, 4u * texel0 + 20u, finished(d5, shifts.w, totals.w)); }
    if (WIDTH > 6u) { store4(at, 4u * texel0 + 24u, finished(d6, shifts.w, totals.w)); }
    if (WIDTH > 7u) { store4(at, 4u * texel0 + 28u, finished(d7, shifts.w, totals.w)); }
    if (WIDTH > 8u) { store4(at, 4u * texel0 + 32u, finished(d8, shifts.w, totals.w)); }
    if (WIDTH > 9u) { store4(at, 4u * texel0 + 36u, finished(d9, shifts.w, totals.w)); }
    if (WIDTH > 10u) { store4(at, 4u * texel0 + 40u, finished(d10, shifts.w, totals.w)); }
    if (WIDTH > 11u) { store4(at, 4u * texel0 + 44u, finished(d11, shifts.w, totals.w)); }
    if (WIDTH > 12u) { store4(at, 4u * texel0 + 48u, finished(d12, shifts.w, totals.w)); }
    if (WIDTH > 13u) { store4(at, 4u * texel0 + 52u, finished(d13, shifts.w, totals.w)); }
    if (WIDTH > 14u) { store4(at, 4u * texel0 + 56u, finished(d14, shifts.w, totals.w)); }
    if (WIDTH > 15u) { store4(at, 4u * texel0 + 60u, finished(d15, shifts.w, totals.w)); }
  }
}
