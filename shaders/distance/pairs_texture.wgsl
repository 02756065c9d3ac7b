// Attention pair by pair for software drivers: four neighbouring rows that see the same keys x 32 value columns per thread, 8 threads
// per group. Results and up to 32 features of the queries stay in registers (HELD texels of 4; beyond them both sides are read again), keys
// and values come as texels. Pairs that the mask leaves out for all four rows are passed over. See pairs_tile.wgsl for what the kernel says.
fn texel_q(at: u32) -> vec4f { return textureLoad(q, texel_place(at), 0); }
fn texel_k(at: u32) -> vec4f { return textureLoad(k, texel_place(at), 0); }
fn texel_v(at: u32) -> vec4f { return textureLoad(v, texel_place(at), 0); }

// Features past the end are 0 on both sides.
fn held_q(start: u32, t: u32) -> vec4f {
  if (t >= HELD) { return vec4f(); }
  return texel_q(start + t);
}

fn store(at: u32, t: u32, value: vec4f) {
  if (t < params.e / 4u) {
    for (var c = 0u; c < 4u; c++) { out[at + 4u * t + c] = value[c]; }
  }
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let r_texels = params.r / 4u;
  let e_texels = params.e / 4u;
  let slices = (e_texels + 7u) / 8u;
  let block_groups = (blocks_of(4u) + 7u) / 8u;
  let local_batch = group / (slices * block_groups);
  let block = group / slices % block_groups * 8u + thread;
  if (block >= blocks_of(4u)) { return; }
  let place = place_of(params.batch_from + local_batch, block, 4u);
  if (place.rows == 0u) { return; }
  let t0 = group % slices * 8u;
  let k_from = params.k_at / 4u + local_batch * params.n * r_texels;
  let v_from = params.v_at / 4u + local_batch * params.n * e_texels + t0;
  // Rows past the end repeat the last one and are not stored.
  let row_a = place.row;
  let row_b = place.row + min(1u, place.rows - 1u);
  let row_c = place.row + min(2u, place.rows - 1u);
  let row_d = place.row + min(3u, place.rows - 1u);
  let qa = params.q_at / 4u + query_of(local_batch, row_a) * r_texels;
  let qb = params.q_at / 4u + query_of(local_batch, row_b) * r_texels;
  let qc = params.q_at / 4u + query_of(local_batch, row_c) * r_texels;
  let qd = params.q_at / 4u + query_of(local_batch, row_d) * r_texels;
  let qa0 = held_q(qa, 0u); let qb0 = held_q(qb, 0u); let qc0 = held_q(qc, 0u); let qd0 = held_q(qd, 0u);
  let qa1 = held_q(qa, 1u); let qb1 = held_q(qb, 1u); let qc1 = held_q(qc, 1u); let qd1 = held_q(qd, 1u);
  let qa2 = held_q(qa, 2u); let qb2 = held_q(qb, 2u); let qc2 = held_q(qc, 2u); let qd2 = held_q(qd, 2u);
  let qa3 = held_q(qa, 3u); let qb3 = held_q(qb, 3u); let qc3 = held_q(qc, 3u); let qd3 = held_q(qd, 3u);
  let qa4 = held_q(qa, 4u); let qb4 = held_q(qb, 4u); let qc4 = held_q(qc, 4u); let qd4 = held_q(qd, 4u);
  let qa5 = held_q(qa, 5u); let qb5 = held_q(qb, 5u); let qc5 = held_q(qc, 5u); let qd5 = held_q(qd, 5u);
  let qa6 = held_q(qa, 6u); let qb6 = held_q(qb, 6u); let qc6 = held_q(qc, 6u); let qd6 = held_q(qd, 6u);
  let qa7 = held_q(qa, 7u); let qb7 = held_q(qb, 7u); let qc7 = held_q(qc, 7u); let qd7 = held_q(qd, 7u);
  var a0 = vec4f(); var b0 = vec4f(); var c0 = vec4f(); var d0 = vec4f();
  var a1 = vec4f(); var b1 = vec4f(); var c1 = vec4f(); var d1 = vec4f();
  var a2 = vec4f(); var b2 = vec4f(); var c2 = vec4f(); var d2 = vec4f();
  var a3 = vec4f(); var b3 = vec4f(); var c3 = vec4f(); var d3 = vec4f();
  var a4 = vec4f(); var b4 = vec4f(); var c4 = vec4f(); var d4 = vec4f();
  var a5 = vec4f(); var b5 = vec4f(); var c5 = vec4f(); var d5 = vec4f();
  var a6 = vec4f(); var b6 = vec4f(); var c6 = vec4f(); var d6 = vec4f();
  var a7 = vec4f(); var b7 = vec4f(); var c7 = vec4f(); var d7 = vec4f();
  var totals = vec4f();
  var tops = vec4f(LOWEST);
  for (var key0 = place.first; key0 < place.last; key0 += 4u) {
    var ma = mask_of(place, row_a, key0);
    var mb = mask_of(place, row_b, key0);
    var mc = mask_of(place, row_c, key0);
    var md = mask_of(place, row_d, key0);
    for (var i = 0u; i < 4u; i++) {
      // The next key's weights move up: an index that changes would put them into memory.
      let mask = vec4f(ma.x, mb.x, mc.x, md.x);
      ma = ma.yzwx; mb = mb.yzwx; mc = mc.yzwx; md = md.yzwx;
      if (all(mask == vec4f())) { continue; }
      let key = min(key0 + i, params.n - 1u);
      let k_at = k_from + key * r_texels;
      var s = vec4f();
      if (HELD > 0u) {
        let k4 = texel_k(k_at);
        s += vec4f(part(qa0, k4), part(qb0, k4), part(qc0, k4), part(qd0, k4));
      }
      if (HELD > 1u) {
        let k4 = texel_k(k_at + 1u);
        s += vec4f(part(qa1, k4), part(qb1, k4), part(qc1, k4), part(qd1, k4));
      }
      if (HELD > 2u) {
        let k4 = texel_k(k_at + 2u);
        s += vec4f(part(qa2, k4), part(qb2, k4), part(qc2, k4), part(qd2, k4));
      }
      if (HELD > 3u) {
        let k4 = texel_k(k_at + 3u);
        s += vec4f(part(qa3, k4), part(qb3, k4), part(qc3, k4), part(qd3, k4));
      }
      if (HELD > 4u) {
        let k4 = texel_k(k_at + 4u);
        s += vec4f(part(qa4, k4), part(qb4, k4), part(qc4, k4), part(qd4, k4));
      }
      if (HELD > 5u) {
        let k4 = texel_k(k_at + 5u);
        s += vec4f(part(qa5, k4), part(qb5, k4), part(qc5, k4), part(qd5, k4));
      }
      if (HELD > 6u) {
        let k4 = texel_k(k_at + 6u);
        s += vec4f(part(qa6, k4), part(qb6, k4), part(qc6, k4), part(qd6, k4));
      }
      if (HELD > 7u) {
        let k4 = texel_k(k_at + 7u);
        s += vec4f(part(qa7, k4), part(qb7, k4), part(qc7, k4), part(qd7, k4));
      }
      for (var t = 8u; t < r_texels; t++) {
        let k4 = texel_k(k_at + t);
        s += vec4f(part(texel_q(qa + t), k4), part(texel_q(qb + t), k4), part(texel_q(qc + t), k4), part(texel_q(qd + t), k4));
      }
      if (SCORES != LINEAR) {
        s = score(s);
        let next = max(tops, seen(mask, s));
        // Most keys do not raise any row's largest score.
        if (any(next > tops)) {
          let shrink = exp4(tops - next, 0.0);
          totals *= shrink;
          a0 *= shrink.x; b0 *= shrink.y; c0 *= shrink.z; d0 *= shrink.w;
          a1 *= shrink.x; b1 *= shrink.y; c1 *= shrink.z; d1 *= shrink.w;
          a2 *= shrink.x; b2 *= shrink.y; c2 *= shrink.z; d2 *= shrink.w;
          a3 *= shrink.x; b3 *= shrink.y; c3 *= shrink.z; d3 *= shrink.w;
          a4 *= shrink.x; b4 *= shrink.y; c4 *= shrink.z; d4 *= shrink.w;
          a5 *= shrink.x; b5 *= shrink.y; c5 *= shrink.z; d5 *= shrink.w;
          a6 *= shrink.x; b6 *= shrink.y; c6 *= shrink.z; d6 *= shrink.w;
          a7 *= shrink.x; b7 *= shrink.y; c7 *= shrink.z; d7 *= shrink.w;
          tops = next;
        }
        s = exp4(s - tops, 0.0);
      }
      s = weighted(mask, s);
      totals += s;
      let v_at = v_from + key * e_texels;
      if (WIDTH > 0u) {
        let v4 = texel_v(v_at);
        a0 += s.x * v4; b0 += s.y * v4; c0 += s.z * v4; d0 += s.w * v4;
      }
      if (WIDTH > 1u) {
        let v4 = texel_v(v_at + min(1u, e_texels - 1u - t0));
        a1 += s.x * v4; b1 += s.y * v4; c1 += s.z * v4; d1 += s.w * v4;
      }
      if (WIDTH > 2u) {
        let v4 = texel_v(v_at + min(2u, e_texels - 1u - t0));
        a2 += s.x * v4; b2 += s.y * v4; c2 += s.z * v4; d2 += s.w * v4;
      }
      if (WIDTH > 3u) {
        let v4 = texel_v(v_at + min(3u, e_texels - 1u - t0));
        a3 += s.x * v4; b3 += s.y * v4; c3 += s.z * v4; d3 += s.w * v4;
      }
      if (WIDTH > 4u) {
        let v4 = texel_v(v_at + min(4u, e_texels - 1u - t0));
        a4 += s.x * v4; b4 += s.y * v4; c4 += s.z * v4; d4 += s.w * v4;
      }
      if (WIDTH > 5u) {
        let v4 = texel_v(v_at + min(5u, e_texels - 1u - t0));
        a5 += s.x * v4; b5 += s.y * v4; c5 += s.z * v4; d5 += s.w * v4;
      }
      if (WIDTH > 6u) {
        let v4 = texel_v(v_at + min(6u, e_texels - 1u - t0));
        a6 += s.x * v4; b6 += s.y * v4; c6 += s.z * v4; d6 += s.w * v4;
      }
      if (WIDTH > 7u) {
        let v4 = texel_v(v_at + min(7u, e_texels - 1u - t0));
        a7 += s.x * v4; b7 += s.y * v4; c7 += s.z * v4; d7 += s.w * v4;
      }
    }
  }
  {
    let asked = row_is_asked(place, row_a);
    let at = params.out_at + query_of(local_batch, row_a) * params.e;
    if (WIDTH > 0u) { store(at, t0, finished(a0, totals.x, asked)); }
    if (WIDTH > 1u) { store(at, t0 + 1u, finished(a1, totals.x, asked)); }
    if (WIDTH > 2u) { store(at, t0 + 2u, finished(a2, totals.x, asked)); }
    if (WIDTH > 3u) { store(at, t0 + 3u, finished(a3, totals.x, asked)); }
    if (WIDTH > 4u) { store(at, t0 + 4u, finished(a4, totals.x, asked)); }
    if (WIDTH > 5u) { store(at, t0 + 5u, finished(a5, totals.x, asked)); }
    if (WIDTH > 6u) { store(at, t0 + 6u, finished(a6, totals.x, asked)); }
    if (WIDTH > 7u) { store(at, t0 + 7u, finished(a7, totals.x, asked)); }
  }
  if (place.rows > 1u) {
    let asked = row_is_asked(place, row_b);
    let at = params.out_at + query_of(local_batch, row_b) * params.e;
    if (WIDTH > 0u) { store(at, t0, finished(b0, totals.y, asked)); }
    if (WIDTH > 1u) { store(at, t0 + 1u, finished(b1, totals.y, asked)); }
    if (WIDTH > 2u) { store(at, t0 + 2u, finished(b2, totals.y, asked)); }
    if (WIDTH > 3u) { store(at, t0 + 3u, finished(b3, totals.y, asked)); }
    if (WIDTH > 4u) { store(at, t0 + 4u, finished(b4, totals.y, asked)); }
    if (WIDTH > 5u) { store(at, t0 + 5u, finished(b5, totals.y, asked)); }
    if (WIDTH > 6u) { store(at, t0 + 6u, finished(b6, totals.y, asked)); }
    if (WIDTH > 7u) { store(at, t0 + 7u, finished(b7, totals.y, asked)); }
  }
  if (place.rows > 2u) {
    let asked = row_is_asked(place, row_c);
    let at = params.out_at + query_of(local_batch, row_c) * params.e;
    if (WIDTH > 0u) { store(at, t0, finished(c0, totals.z, asked)); }
    if (WIDTH > 1u) { store(at, t0 + 1u, finished(c1, totals.z, asked)); }
    if (WIDTH > 2u) { store(at, t0 + 2u, finished(c2, totals.z, asked)); }
    if (WIDTH > 3u) { store(at, t0 + 3u, finished(c3, totals.z, asked)); }
    if (WIDTH > 4u) { store(at, t0 + 4u, finished(c4, totals.z, asked)); }
    if (WIDTH > 5u) { store(at, t0 + 5u, finished(c5, totals.z, asked)); }
    if (WIDTH > 6u) { store(at, t0 + 6u, finished(c6, totals.z, asked)); }
    if (WIDTH > 7u) { store(at, t0 + 7u, finished(c7, totals.z, asked)); }
  }
  if (place.rows > 3u) {
    let asked = row_is_asked(place, row_d);
    let at = params.out_at + query_of(local_batch, row_d) * params.e;
    if (WIDTH > 0u) { store(at, t0, finished(d0, totals.w, asked)); }
    if (WIDTH > 1u) { store(at, t0 + 1u, finished(d1, totals.w, asked)); }
    if (WIDTH > 2u) { store(at, t0 + 2u, finished(d2, totals.w, asked)); }
    if (WIDTH > 3u) { store(at, t0 + 3u, finished(d3, totals.w, asked)); }
    if (WIDTH > 4u) { store(at, t0 + 4u, finished(d4, totals.w, asked)); }
    if (WIDTH > 5u) { store(at, t0 + 5u, finished(d5, totals.w, asked)); }
    if (WIDTH > 6u) { store(at, t0 + 6u, finished(d6, totals.w, asked)); }
    if (WIDTH > 7u) { store(at, t0 + 7u, finished(d7, totals.w, asked)); }
  }
}
