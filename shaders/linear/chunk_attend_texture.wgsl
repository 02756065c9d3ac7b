// Four query rows per thread, 8 threads per group, for software drivers: queries and results stay in registers, keys, values
// and states come as texels that all threads share. A group's 32 rows lie in one chunk. Up to 32 features of the queries are
// held (HELD texels), the rest is read again; a group makes 32 value columns (WIDTH texels).
// Keys before a row come from the last to the first, keys after it from the first to the last, so that a row's weight fades
// by one multiplication per key.
@group(0) @binding(1) var q: texture_2d<f32>;
@group(0) @binding(2) var k: texture_2d<f32>;
@group(0) @binding(3) var v: texture_2d<f32>;
@group(0) @binding(4) var<storage, read> powers: array<f32>;
@group(0) @binding(5) var<storage, read> key_mask: array<u32>;
@group(0) @binding(6) var<storage, read> reach: array<u32>;
@group(0) @binding(7) var states: texture_2d<f32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

fn texel_q(at: u32) -> vec4f { return textureLoad(q, texel_place(at), 0); }
fn texel_k(at: u32) -> vec4f { return textureLoad(k, texel_place(at), 0); }
fn texel_v(at: u32) -> vec4f { return textureLoad(v, texel_place(at), 0); }
fn texel_s(at: u32) -> vec4f { return textureLoad(states, texel_place(at), 0); }

// Features past the end are never used.
fn held_q(start: u32, t: u32) -> vec4f {
  if (t >= HELD) { return vec4f(); }
  return texel_q(start + t);
}

fn store(at: u32, texel: u32, sums: vec4f, total: f32) {
  if (4u * texel >= params.e) { return; }
  var x = sums;
  if (DIVIDE == 1u) {
    // 0 where there is no key.
    x = vec4f();
    if (!(total == 0.0)) { x = sums / total; }
  }
  let place = at + 4u * texel;
  out[place] = x.x;
  out[place + 1u] = x.y;
  out[place + 2u] = x.z;
  out[place + 3u] = x.w;
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let r_texels = params.r / 4u;
  let e_texels = params.e / 4u;
  let slices = (e_texels + 7u) / 8u;
  let row_groups = (params.n + 31u) / 32u;
  let local_batch = group / (slices * row_groups);
  let texel0 = group % slices * 8u;
  let row0 = group / slices % row_groups * 32u;
  let batch = params.batch_from + local_batch;
  let mask_from = key_mask_start(batch);
  let reach_from = reach_start(batch);
  let powers_from = powers_start(batch);
  let chunk = row0 / params.rows;
  let first = chunk * params.rows;
  let end = min(first + params.rows, params.n);
  // Rows past the end repeat the last one and are not stored.
  let last = params.n - 1u;
  let rows = min(vec4u(row0 + thread) + vec4u(0u, 8u, 16u, 24u), vec4u(last));
  let seen_a = reach_of(reach_from, rows.x);
  let seen_b = reach_of(reach_from, rows.y);
  let seen_c = reach_of(reach_from, rows.z);
  let seen_d = reach_of(reach_from, rows.w);
  let before = vec4u(seen_a.x, seen_b.x, seen_c.x, seen_d.x);
  let after = vec4u(seen_a.y, seen_b.y, seen_c.y, seen_d.y);
  let q_from = vec4u(params.q_at / 4u + local_batch * params.n * r_texels) + rows * r_texels;
  let k_from = params.k_at / 4u + local_batch * params.n * r_texels;
  let v_from = params.v_at / 4u + local_batch * params.n * e_texels;
  let qa0 = held_q(q_from.x, 0u); let qb0 = held_q(q_from.y, 0u); let qc0 = held_q(q_from.z, 0u); let qd0 = held_q(q_from.w, 0u);
  let qa1 = held_q(q_from.x, 1u); let qb1 = held_q(q_from.y, 1u); let qc1 = held_q(q_from.z, 1u); let qd1 = held_q(q_from.w, 1u);
  let qa2 = held_q(q_from.x, 2u); let qb2 = held_q(q_from.y, 2u); let qc2 = held_q(q_from.z, 2u); let qd2 = held_q(q_from.w, 2u);
  let qa3 = held_q(q_from.x, 3u); let qb3 = held_q(q_from.y, 3u); let qc3 = held_q(q_from.z, 3u); let qd3 = held_q(q_from.w, 3u);
  let qa4 = held_q(q_from.x, 4u); let qb4 = held_q(q_from.y, 4u); let qc4 = held_q(q_from.z, 4u); let qd4 = held_q(q_from.w, 4u);
  let qa5 = held_q(q_from.x, 5u); let qb5 = held_q(q_from.y, 5u); let qc5 = held_q(q_from.z, 5u); let qd5 = held_q(q_from.w, 5u);
  let qa6 = held_q(q_from.x, 6u); let qb6 = held_q(q_from.y, 6u); let qc6 = held_q(q_from.z, 6u); let qd6 = held_q(q_from.w, 6u);
  let qa7 = held_q(q_from.x, 7u); let qb7 = held_q(q_from.y, 7u); let qc7 = held_q(q_from.z, 7u); let qd7 = held_q(q_from.w, 7u);
  var a0 = vec4f(); var b0 = vec4f(); var c0 = vec4f(); var d0 = vec4f();
  var a1 = vec4f(); var b1 = vec4f(); var c1 = vec4f(); var d1 = vec4f();
  var a2 = vec4f(); var b2 = vec4f(); var c2 = vec4f(); var d2 = vec4f();
  var a3 = vec4f(); var b3 = vec4f(); var c3 = vec4f(); var d3 = vec4f();
  var a4 = vec4f(); var b4 = vec4f(); var c4 = vec4f(); var d4 = vec4f();
  var a5 = vec4f(); var b5 = vec4f(); var c5 = vec4f(); var d5 = vec4f();
  var a6 = vec4f(); var b6 = vec4f(); var c6 = vec4f(); var d6 = vec4f();
  var a7 = vec4f(); var b7 = vec4f(); var c7 = vec4f(); var d7 = vec4f();
  var total = vec4f();

  // The chunk's own keys.
  let top = min(row0 + 32u, end);
  let forward = top - first;
  let steps = forward + TWO_SIDED * (end - row0);
  let decay = power(powers_from, select(0u, 1u, HAS_POWERS));
  var fade = vec4f(1.0);
  for (var step = 0u; step < steps; step++) {
    let backward = step >= forward;
    let j = select(top - 1u - min(step, top - 1u), row0 + step - forward, backward);
    let at_or_before = vec4<bool>(j <= rows.x, j <= rows.y, j <= rows.z, j <= rows.w);
    if (HAS_POWERS) {
      if (step == forward) { fade = vec4f(1.0); }
      let further = select(vec4u(j) < rows, vec4u(j) > rows, vec4<bool>(backward));
      fade = select(fade, fade * decay, further);
    }
    if (!key_counts(mask_from, reach_from, j)) { continue; }
    let near_before = rows - vec4u(j) < before;
    let near_after = vec4u(j) - rows < after;
    let visible = select(at_or_before & near_before, !at_or_before & near_after, vec4<bool>(backward));
    let at = k_from + j * r_texels;
    var sum_a = vec4f(); var sum_b = vec4f(); var sum_c = vec4f(); var sum_d = vec4f();
    if (HELD > 0u) { let x = texel_k(at + 0u); sum_a += qa0 * x; sum_b += qb0 * x; sum_c += qc0 * x; sum_d += qd0 * x; }
    if (HELD > 1u) { let x = texel_k(at + 1u); sum_a += qa1 * x; sum_b += qb1 * x; sum_c += qc1 * x; sum_d += qd1 * x; }
    if (HELD > 2u) { let x = texel_k(at + 2u); sum_a += qa2 * x; sum_b += qb2 * x; sum_c += qc2 * x; sum_d += qd2 * x; }
    if (HELD > 3u) { let x = texel_k(at + 3u); sum_a += qa3 * x; sum_b += qb3 * x; sum_c += qc3 * x; sum_d += qd3 * x; }
    if (HELD > 4u) { let x = texel_k(at + 4u); sum_a += qa4 * x; sum_b += qb4 * x; sum_c += qc4 * x; sum_d += qd4 * x; }
    if (HELD > 5u) { let x = texel_k(at + 5u); sum_a += qa5 * x; sum_b += qb5 * x; sum_c += qc5 * x; sum_d += qd5 * x; }
    if (HELD > 6u) { let x = texel_k(at + 6u); sum_a += qa6 * x; sum_b += qb6 * x; sum_c += qc6 * x; sum_d += qd6 * x; }
    if (HELD > 7u) { let x = texel_k(at + 7u); sum_a += qa7 * x; sum_b += qb7 * x; sum_c += qc7 * x; sum_d += qd7 * x; }
    for (var t = 8u; t < r_texels; t++) {
      let x = texel_k(at + t);
      sum_a += texel_q(q_from.x + t) * x;
      sum_b += texel_q(q_from.y + t) * x;
      sum_c += texel_q(q_from.z + t) * x;
      sum_d += texel_q(q_from.w + t) * x;
    }
    let products = vec4f((sum_a.x + sum_a.y) + (sum_a.z + sum_a.w), (sum_b.x + sum_b.y) + (sum_b.z + sum_b.w),
      (sum_c.x + sum_c.y) + (sum_c.z + sum_c.w), (sum_d.x + sum_d.y) + (sum_d.z + sum_d.w));
    // Selected: the product with a key of another segment may be anything.
    let weights = select(vec4f(), products * fade, visible);
    total += weights;
    let line = v_from + j * e_texels;
    if (WIDTH > 0u) { let x = texel_v(line + min(texel0 + 0u, e_texels - 1u)); a0 += weights.x * x; b0 += weights.y * x; c0 += weights.z * x; d0 += weights.w * x; }
    if (WIDTH > 1u) { let x = texel_v(line + min(texel0 + 1u, e_texels - 1u)); a1 += weights.x * x; b1 += weights.y * x; c1 += weights.z * x; d1 += weights.w * x; }
    if (WIDTH > 2u) { let x = texel_v(line + min(texel0 + 2u, e_texels - 1u)); a2 += weights.x * x; b2 += weights.y * x; c2 += weights.z * x; d2 += weights.w * x; }
    if (WIDTH > 3u) { let x = texel_v(line + min(texel0 + 3u, e_texels - 1u)); a3 += weights.x * x; b3 += weights.y * x; c3 += weights.z * x; d3 += weights.w * x; }
    if (WIDTH > 4u) { let x = texel_v(line + min(texel0 + 4u, e_texels - 1u)); a4 += weights.x * x; b4 += weights.y * x; c4 += weights.z * x; d4 += weights.w * x; }
    if (WIDTH > 5u) { let x = texel_v(line + min(texel0 + 5u, e_texels - 1u)); a5 += weights.x * x; b5 += weights.y * x; c5 += weights.z * x; d5 += weights.w * x; }
    if (WIDTH > 6u) { let x = texel_v(line + min(texel0 + 6u, e_texels - 1u)); a6 += weights.x * x; b6 += weights.y * x; c6 += weights.z * x; d6 += weights.w * x; }
    if (WIDTH > 7u) { let x = texel_v(line + min(texel0 + 7u, e_texels - 1u)); a7 += weights.x * x; b7 += weights.y * x; c7 += weights.z * x; d7 += weights.w * x; }
  }

  // Everything before the chunk, and after it: four features at a time.
  for (var side = 0u; side <= TWO_SIDED; side++) {
    let distance = select(rows - vec4u(first) + vec4u(1u), vec4u(end) - rows, vec4<bool>(side == 1u));
    let enters = distance < select(before, after, vec4<bool>(side == 1u));
    var far = vec4f(1.0);
    if (HAS_POWERS) {
      far = vec4f(power(powers_from, distance.x), power(powers_from, distance.y), power(powers_from, distance.z), power(powers_from, distance.w));
    }
    far = select(vec4f(), far, enters);
    let state = (params.states_at + (local_batch * params.c + chunk) * params.s + side * params.r * (params.e + 1u)) / 4u;
    let sums_of_keys = state + params.r * e_texels;
    for (var t = 0u; t < r_texels; t++) {
      var x_a = texel_q(q_from.x + t) * far.x;
      var x_b = texel_q(q_from.y + t) * far.y;
      var x_c = texel_q(q_from.z + t) * far.z;
      var x_d = texel_q(q_from.w + t) * far.w;
      let z = texel_s(sums_of_keys + t);
      total += vec4f(dot(x_a, z), dot(x_b, z), dot(x_c, z), dot(x_d, z));
      for (var l = 0u; l < 4u; l++) {
        let line = state + (4u * t + l) * e_texels;
        if (WIDTH > 0u) { let x = texel_s(line + min(texel0 + 0u, e_texels - 1u)); a0 += x_a.x * x; b0 += x_b.x * x; c0 += x_c.x * x; d0 += x_d.x * x; }
        if (WIDTH > 1u) { let x = texel_s(line + min(texel0 + 1u, e_texels - 1u)); a1 += x_a.x * x; b1 += x_b.x * x; c1 += x_c.x * x; d1 += x_d.x * x; }
        if (WIDTH > 2u) { let x = texel_s(line + min(texel0 + 2u, e_texels - 1u)); a2 += x_a.x * x; b2 += x_b.x * x; c2 += x_c.x * x; d2 += x_d.x * x; }
        if (WIDTH > 3u) { let x = texel_s(line + min(texel0 + 3u, e_texels - 1u)); a3 += x_a.x * x; b3 += x_b.x * x; c3 += x_c.x * x; d3 += x_d.x * x; }
        if (WIDTH > 4u) { let x = texel_s(line + min(texel0 + 4u, e_texels - 1u)); a4 += x_a.x * x; b4 += x_b.x * x; c4 += x_c.x * x; d4 += x_d.x * x; }
        if (WIDTH > 5u) { let x = texel_s(line + min(texel0 + 5u, e_texels - 1u)); a5 += x_a.x * x; b5 += x_b.x * x; c5 += x_c.x * x; d5 += x_d.x * x; }
        if (WIDTH > 6u) { let x = texel_s(line + min(texel0 + 6u, e_texels - 1u)); a6 += x_a.x * x; b6 += x_b.x * x; c6 += x_c.x * x; d6 += x_d.x * x; }
        if (WIDTH > 7u) { let x = texel_s(line + min(texel0 + 7u, e_texels - 1u)); a7 += x_a.x * x; b7 += x_b.x * x; c7 += x_c.x * x; d7 += x_d.x * x; }
        x_a = x_a.yzwx;
        x_b = x_b.yzwx;
        x_c = x_c.yzwx;
        x_d = x_d.yzwx;
      }
    }
  }

  let out_from = params.out_at + local_batch * params.n * params.p;
  if (row0 + thread <= last) {
    let at = out_from + (row0 + thread) * params.p;
    if (WIDTH > 0u) { store(at, texel0 + 0u, a0, total.x); }
    if (WIDTH > 1u) { store(at, texel0 + 1u, a1, total.x); }
    if (WIDTH > 2u) { store(at, texel0 + 2u, a2, total.x); }
    if (WIDTH > 3u) { store(at, texel0 + 3u, a3, total.x); }
    if (WIDTH > 4u) { store(at, texel0 + 4u, a4, total.x); }
    if (WIDTH > 5u) { store(at, texel0 + 5u, a5, total.x); }
    if (WIDTH > 6u) { store(at, texel0 + 6u, a6, total.x); }
    if (WIDTH > 7u) { store(at, texel0 + 7u, a7, total.x); }
    if (DIVIDE == 0u && texel0 == 0u) { out[at + params.e] = total.x; }
  }
  if (row0 + thread + 8u <= last) {
    let at = out_from + (row0 + thread + 8u) * params.p;
    if (WIDTH > 0u) { store(at, texel0 + 0u, b0, total.y); }
    if (WIDTH > 1u) { store(at, texel0 + 1u, b1, total.y); }
    if (WIDTH > 2u) { store(at, texel0 + 2u, b2, total.y); }
    if (WIDTH > 3u) { store(at, texel0 + 3u, b3, total.y); }
    if (WIDTH > 4u) { store(at, texel0 + 4u, b4, total.y); }
    if (WIDTH > 5u) { store(at, texel0 + 5u, b5, total.y); }
    if (WIDTH > 6u) { store(at, texel0 + 6u, b6, total.y); }
    if (WIDTH > 7u) { store(at, texel0 + 7u, b7, total.y); }
    if (DIVIDE == 0u && texel0 == 0u) { out[at + params.e] = total.y; }
  }
  if (row0 + thread + 16u <= last) {
    let at = out_from + (row0 + thread + 16u) * params.p;
    if (WIDTH > 0u) { store(at, texel0 + 0u, c0, total.z); }
    if (WIDTH > 1u) { store(at, texel0 + 1u, c1, total.z); }
    if (WIDTH > 2u) { store(at, texel0 + 2u, c2, total.z); }
    if (WIDTH > 3u) { store(at, texel0 + 3u, c3, total.z); }
    if (WIDTH > 4u) { store(at, texel0 + 4u, c4, total.z); }
    if (WIDTH > 5u) { store(at, texel0 + 5u, c5, total.z); }
    if (WIDTH > 6u) { store(at, texel0 + 6u, c6, total.z); }
    if (WIDTH > 7u) { store(at, texel0 + 7u, c7, total.z); }
    if (DIVIDE == 0u && texel0 == 0u) { out[at + params.e] = total.z; }
  }
  if (row0 + thread + 24u <= last) {
    let at = out_from + (row0 + thread + 24u) * params.p;
    if (WIDTH > 0u) { store(at, texel0 + 0u, d0, total.w); }
    if (WIDTH > 1u) { store(at, texel0 + 1u, d1, total.w); }
    if (WIDTH > 2u) { store(at, texel0 + 2u, d2, total.w); }
    if (WIDTH > 3u) { store(at, texel0 + 3u, d3, total.w); }
    if (WIDTH > 4u) { store(at, texel0 + 4u, d4, total.w); }
    if (WIDTH > 5u) { store(at, texel0 + 5u, d5, total.w); }
    if (WIDTH > 6u) { store(at, texel0 + 6u, d6, total.w); }
    if (WIDTH > 7u) { store(at, texel0 + 7u, d7, total.w); }
    if (DIVIDE == 0u && texel0 == 0u) { out[at + params.e] = total.w; }
  }
}
