// Four neighbouring query rows of a line per thread, 8 threads per group, for software drivers: queries and results stay
// in registers, keys and values come as texels, which on llvmpipe cost a tenth of four storage words. Each thread visits
// the keys that its rows see together. From one key of a line to the next, the rows' entries of the table move up by one
// row, so that only one is loaded. Up to 64 features of the queries are in registers (HELD texels of 4); beyond them both
// sides are read again. A group makes 64 value columns (WIDTH texels, fewer where the values are narrower).
@group(0) @binding(1) var q: texture_2d<f32>; // [b, h, n, r]
@group(0) @binding(2) var k: texture_2d<f32>; // [b, h, n, r]
@group(0) @binding(3) var v: texture_2d<f32>; // [b, h, n, e]
@group(0) @binding(4) var<storage, read> table: array<f32>; // [h or 1, t]
@group(0) @binding(5) var<storage, read> key_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(6) var<storage, read> query_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(7) var<storage, read> segment: array<u32>; // [n, 2]
@group(0) @binding(8) var<storage, read_write> out: array<f32>; // [b, h, n, p]

fn texel_q(at: u32) -> vec4f { return textureLoad(q, vec2u(at & 2047u, at >> 11u), 0); }
fn texel_k(at: u32) -> vec4f { return textureLoad(k, vec2u(at & 2047u, at >> 11u), 0); }
fn texel_v(at: u32) -> vec4f { return textureLoad(v, vec2u(at & 2047u, at >> 11u), 0); }

// Features past the end are 0 on both sides.
fn held_q(start: u32, t: u32) -> vec4f {
  if (t >= HELD) { return vec4f(); }
  return texel_q(start + t);
}

// The entry of a row whose place on the last axis is `place_z`; 0 outside the support.
fn entry_on_line(grid: Grid, table_from: u32, place: vec3i, place_z: i32) -> f32 {
  let inside = place_z >= grid.first.z && place_z <= grid.last.z;
  return select(0.0, entry_at(grid, table_from, vec3i(place.xy, clamp(place_z, grid.first.z, grid.last.z))), inside);
}

fn within(key: u32, range: vec2u) -> bool { return key >= range.x && key < range.y; }

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let r_texels = params.r / 4u;
  let e_texels = params.e / 4u;
  let slices = (e_texels + 15u) / 16u;
  // Blocks of four rows: of the global tokens, then of the grid's lines. There are at most as many as tokens, which is all
  // that the number of groups is made from; the rest of them have nothing to do.
  let block_groups = (params.n + 7u) / 8u;
  let local_batch = group / (slices * block_groups);
  let block = group / slices % block_groups * 8u + thread;
  let texel0 = group % slices * 16u;
  let grid = whole_grid();
  let global_blocks = (params.globals + 3u) / 4u;
  let is_global = block < global_blocks;
  let line_blocks = max(1u, (grid.line + 3u) / 4u);
  let line = select(block - global_blocks, 0u, is_global) / line_blocks;
  let col = 4u * (select(block - global_blocks, block, is_global) % select(line_blocks, max(1u, global_blocks), is_global));
  if (!is_global && line >= params.n1 * params.n2) { return; }
  let row = select(params.globals + line * grid.line, 0u, is_global) + col;
  let rows = min(4u, select(grid.line, params.globals, is_global) - col);
  if (rows == 0u) { return; }
  // Rows past the end repeat the last one and are not stored.
  let row_a = row;
  let row_b = row + min(1u, rows - 1u);
  let row_c = row + min(2u, rows - 1u);
  let row_d = row + min(3u, rows - 1u);
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let k_from = params.k_at / 4u + local_batch * params.n * r_texels;
  let v_from = params.v_at / 4u + local_batch * params.n * e_texels;
  let table_from = table_of(h);
  let key_mask_from = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h;
  let query_mask_from = params.query_mask_at + b * params.query_mask_b + h * params.query_mask_h;
  let qa_from = params.q_at / 4u + (local_batch * params.n + row_a) * r_texels;
  let qb_from = params.q_at / 4u + (local_batch * params.n + row_b) * r_texels;
  let qc_from = params.q_at / 4u + (local_batch * params.n + row_c) * r_texels;
  let qd_from = params.q_at / 4u + (local_batch * params.n + row_d) * r_texels;
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
  var totals = vec4f();

  // Visits: first the global tokens (for a global query all tokens), with weight 1, then the lines of a block of keys.
  var plain = params.globals;
  var block_start = vec3i();
  var block_count = vec3u();
  var query = vec3i();
  let segment_a = segment_of(row_a);
  let segment_b = segment_of(row_b);
  let segment_c = segment_of(row_c);
  let segment_d = segment_of(row_d);
  if (is_global) {
    plain = params.n;
  } else {
    query = coordinates(grid, row);
    // An empty segment (0, 0) must not widen the block; the entries' own test leaves its row out.
    var joint = vec2u(params.n, 0u);
    if (segment_a.x < segment_a.y) { joint = vec2u(min(joint.x, segment_a.x), max(joint.y, segment_a.y)); }
    if (segment_b.x < segment_b.y) { joint = vec2u(min(joint.x, segment_b.x), max(joint.y, segment_b.y)); }
    if (segment_c.x < segment_c.y) { joint = vec2u(min(joint.x, segment_c.x), max(joint.y, segment_c.y)); }
    if (segment_d.x < segment_d.y) { joint = vec2u(min(joint.x, segment_d.x), max(joint.y, segment_d.y)); }
    let seen = seen_by(grid, query, query + vec3i(0, 0, i32(rows) - 1), joint);
    block_start = seen.start;
    block_count = vec3u(seen.count);
  }
  let visits = plain + block_count.x * block_count.y * block_count.z;
  let torus_z = (TORUS & 4u) != 0u;
  var on_line = 0u;
  var key_at = vec3i();
  var line_place = vec3i();
  var line_key = 0u;
  var entries = vec4f();
  for (var step = 0u; step < visits; step++) {
    var key = step;
    var entry = vec4f(1.0);
    if (step >= plain) {
      if (on_line == 0u) {
        let number = (step - plain) / block_count.z;
        key_at = wrapped(grid, block_start + vec3i(i32(number / block_count.y), i32(number % block_count.y), 0));
        line_key = token_at(grid, vec3i(key_at.xy, 0));
        line_place = place_of(grid, query, key_at);
        // The rows after the first, from the last to the second. On a torus the places begin again at 0.
        entries = vec4f();
        for (var next = 3; next > 0; next--) {
          var place_z = line_place.z + next;
          if (torus_z && place_z >= grid.sides.z) { place_z -= grid.sides.z; }
          entries = vec4f(entry_on_line(grid, table_from, line_place, place_z), entries.xyz);
        }
      }
      var place_z = query.z - key_at.z;
      if (torus_z) { place_z = select(place_z, place_z + grid.sides.z, place_z < 0); } else { place_z += grid.sides.z - 1; }
      entries = vec4f(entry_on_line(grid, table_from, line_place, place_z), entries.xyz);
      entry = entries;
      key = line_key + u32(key_at.z);
      on_line += 1u;
      key_at.z += 1;
      if (torus_z && key_at.z >= grid.sides.z) { key_at.z = 0; }
      if (on_line == block_count.z) { on_line = 0u; }
      if (HAS_SEGMENT) {
        entry = select(vec4f(), entry, vec4<bool>(within(key, segment_a), within(key, segment_b), within(key, segment_c), within(key, segment_d)));
      }
    }
    if (any(entry != vec4f()) && key_is_kept(key_mask_from, key)) {
      let at = k_from + key * r_texels;
      var sum_a = vec4f(); var sum_b = vec4f(); var sum_c = vec4f(); var sum_d = vec4f();
      if (HELD > 0u) { let x = texel_k(at + 0u); sum_a += qa0 * x; sum_b += qb0 * x; sum_c += qc0 * x; sum_d += qd0 * x; }
      if (HELD > 1u) { let x = texel_k(at + 1u); sum_a += qa1 * x; sum_b += qb1 * x; sum_c += qc1 * x; sum_d += qd1 * x; }
      if (HELD > 2u) { let x = texel_k(at + 2u); sum_a += qa2 * x; sum_b += qb2 * x; sum_c += qc2 * x; sum_d += qd2 * x; }
      if (HELD > 3u) { let x = texel_k(at + 3u); sum_a += qa3 * x; sum_b += qb3 * x; sum_c += qc3 * x; sum_d += qd3 * x; }
      if (HELD > 4u) { let x = texel_k(at + 4u); sum_a += qa4 * x; sum_b += qb4 * x; sum_c += qc4 * x; sum_d += qd4 * x; }
      if (HELD > 5u) { let x = texel_k(at + 5u); sum_a += qa5 * x; sum_b += qb5 * x; sum_c += qc5 * x; sum_d += qd5 * x; }
      if (HELD > 6u) { let x = texel_k(at + 6u); sum_a += qa6 * x; sum_b += qb6 * x; sum_c += qc6 * x; sum_d += qd6 * x; }
      if (HELD > 7u) { let x = texel_k(at + 7u); sum_a += qa7 * x; sum_b += qb7 * x; sum_c += qc7 * x; sum_d += qd7 * x; }
      if (HELD > 8u) { let x = texel_k(at + 8u); sum_a += qa8 * x; sum_b += qb8 * x; sum_c += qc8 * x; sum_d += qd8 * x; }
      if (HELD > 9u) { let x = texel_k(at + 9u); sum_a += qa9 * x; sum_b += qb9 * x; sum_c += qc9 * x; sum_d += qd9 * x; }
      if (HELD > 10u) { let x = texel_k(at + 10u); sum_a += qa10 * x; sum_b += qb10 * x; sum_c += qc10 * x; sum_d += qd10 * x; }
      if (HELD > 11u) { let x = texel_k(at + 11u); sum_a += qa11 * x; sum_b += qb11 * x; sum_c += qc11 * x; sum_d += qd11 * x; }
      if (HELD > 12u) { let x = texel_k(at + 12u); sum_a += qa12 * x; sum_b += qb12 * x; sum_c += qc12 * x; sum_d += qd12 * x; }
      if (HELD > 13u) { let x = texel_k(at + 13u); sum_a += qa13 * x; sum_b += qb13 * x; sum_c += qc13 * x; sum_d += qd13 * x; }
      if (HELD > 14u) { let x = texel_k(at + 14u); sum_a += qa14 * x; sum_b += qb14 * x; sum_c += qc14 * x; sum_d += qd14 * x; }
      if (HELD > 15u) { let x = texel_k(at + 15u); sum_a += qa15 * x; sum_b += qb15 * x; sum_c += qc15 * x; sum_d += qd15 * x; }
      for (var t = 16u; t < r_texels; t++) {
        let x = texel_k(at + t);
        sum_a += texel_q(qa_from + t) * x;
        sum_b += texel_q(qb_from + t) * x;
        sum_c += texel_q(qc_from + t) * x;
        sum_d += texel_q(qd_from + t) * x;
      }
      let sums = vec4f((sum_a.x + sum_a.y) + (sum_a.z + sum_a.w), (sum_b.x + sum_b.y) + (sum_b.z + sum_b.w),
        (sum_c.x + sum_c.y) + (sum_c.z + sum_c.w), (sum_d.x + sum_d.y) + (sum_d.z + sum_d.w));
      // A row that does not see this key may hold garbage.
      let weights = select(vec4f(), entry * sums, entry != vec4f());
      totals += weights;
      let values = v_from + key * e_texels;
      if (WIDTH > 0u) { let x = texel_v(values + min(texel0 + 0u, e_texels - 1u)); a0 += weights.x * x; b0 += weights.y * x; c0 += weights.z * x; d0 += weights.w * x; }
      if (WIDTH > 1u) { let x = texel_v(values + min(texel0 + 1u, e_texels - 1u)); a1 += weights.x * x; b1 += weights.y * x; c1 += weights.z * x; d1 += weights.w * x; }
      if (WIDTH > 2u) { let x = texel_v(values + min(texel0 + 2u, e_texels - 1u)); a2 += weights.x * x; b2 += weights.y * x; c2 += weights.z * x; d2 += weights.w * x; }
      if (WIDTH > 3u) { let x = texel_v(values + min(texel0 + 3u, e_texels - 1u)); a3 += weights.x * x; b3 += weights.y * x; c3 += weights.z * x; d3 += weights.w * x; }
      if (WIDTH > 4u) { let x = texel_v(values + min(texel0 + 4u, e_texels - 1u)); a4 += weights.x * x; b4 += weights.y * x; c4 += weights.z * x; d4 += weights.w * x; }
      if (WIDTH > 5u) { let x = texel_v(values + min(texel0 + 5u, e_texels - 1u)); a5 += weights.x * x; b5 += weights.y * x; c5 += weights.z * x; d5 += weights.w * x; }
      if (WIDTH > 6u) { let x = texel_v(values + min(texel0 + 6u, e_texels - 1u)); a6 += weights.x * x; b6 += weights.y * x; c6 += weights.z * x; d6 += weights.w * x; }
      if (WIDTH > 7u) { let x = texel_v(values + min(texel0 + 7u, e_texels - 1u)); a7 += weights.x * x; b7 += weights.y * x; c7 += weights.z * x; d7 += weights.w * x; }
      if (WIDTH > 8u) { let x = texel_v(values + min(texel0 + 8u, e_texels - 1u)); a8 += weights.x * x; b8 += weights.y * x; c8 += weights.z * x; d8 += weights.w * x; }
      if (WIDTH > 9u) { let x = texel_v(values + min(texel0 + 9u, e_texels - 1u)); a9 += weights.x * x; b9 += weights.y * x; c9 += weights.z * x; d9 += weights.w * x; }
      if (WIDTH > 10u) { let x = texel_v(values + min(texel0 + 10u, e_texels - 1u)); a10 += weights.x * x; b10 += weights.y * x; c10 += weights.z * x; d10 += weights.w * x; }
      if (WIDTH > 11u) { let x = texel_v(values + min(texel0 + 11u, e_texels - 1u)); a11 += weights.x * x; b11 += weights.y * x; c11 += weights.z * x; d11 += weights.w * x; }
      if (WIDTH > 12u) { let x = texel_v(values + min(texel0 + 12u, e_texels - 1u)); a12 += weights.x * x; b12 += weights.y * x; c12 += weights.z * x; d12 += weights.w * x; }
      if (WIDTH > 13u) { let x = texel_v(values + min(texel0 + 13u, e_texels - 1u)); a13 += weights.x * x; b13 += weights.y * x; c13 += weights.z * x; d13 += weights.w * x; }
      if (WIDTH > 14u) { let x = texel_v(values + min(texel0 + 14u, e_texels - 1u)); a14 += weights.x * x; b14 += weights.y * x; c14 += weights.z * x; d14 += weights.w * x; }
      if (WIDTH > 15u) { let x = texel_v(values + min(texel0 + 15u, e_texels - 1u)); a15 += weights.x * x; b15 += weights.y * x; c15 += weights.z * x; d15 += weights.w * x; }
    }
  }

  if (rows > 0u) {
    let asked = row_is_asked(query_mask_from, row_a);
    let at = params.out_at + (local_batch * params.n + row_a) * params.p;
    if (texel0 == 0u) { store_total(at, totals.x, asked); }
    if (WIDTH > 0u) { store4(at, 4u * texel0 + 0u, finished(a0, totals.x, asked)); }
    if (WIDTH > 1u) { store4(at, 4u * texel0 + 4u, finished(a1, totals.x, asked)); }
    if (WIDTH > 2u) { store4(at, 4u * texel0 + 8u, finished(a2, totals.x, asked)); }
    if (WIDTH > 3u) { store4(at, 4u * texel0 + 12u, finished(a3, totals.x, asked)); }
    if (WIDTH > 4u) { store4(at, 4u * texel0 + 16u, finished(a4, totals.x, asked)); }
    if (WIDTH > 5u) { store4(at, 4u * texel0 + 20u, finished(a5, totals.x, asked)); }
    if (WIDTH > 6u) { store4(at, 4u * texel0 + 24u, finished(a6, totals.x, asked)); }
    if (WIDTH > 7u) { store4(at, 4u * texel0 + 28u, finished(a7, totals.x, asked)); }
    if (WIDTH > 8u) { store4(at, 4u * texel0 + 32u, finished(a8, totals.x, asked)); }
    if (WIDTH > 9u) { store4(at, 4u * texel0 + 36u, finished(a9, totals.x, asked)); }
    if (WIDTH > 10u) { store4(at, 4u * texel0 + 40u, finished(a10, totals.x, asked)); }
    if (WIDTH > 11u) { store4(at, 4u * texel0 + 44u, finished(a11, totals.x, asked)); }
    if (WIDTH > 12u) { store4(at, 4u * texel0 + 48u, finished(a12, totals.x, asked)); }
    if (WIDTH > 13u) { store4(at, 4u * texel0 + 52u, finished(a13, totals.x, asked)); }
    if (WIDTH > 14u) { store4(at, 4u * texel0 + 56u, finished(a14, totals.x, asked)); }
    if (WIDTH > 15u) { store4(at, 4u * texel0 + 60u, finished(a15, totals.x, asked)); }
  }
  if (rows > 1u) {
    let asked = row_is_asked(query_mask_from, row_b);
    let at = params.out_at + (local_batch * params.n + row_b) * params.p;
    if (texel0 == 0u) { store_total(at, totals.y, asked); }
    if (WIDTH > 0u) { store4(at, 4u * texel0 + 0u, finished(b0, totals.y, asked)); }
    if (WIDTH > 1u) { store4(at, 4u * texel0 + 4u, finished(b1, totals.y, asked)); }
    if (WIDTH > 2u) { store4(at, 4u * texel0 + 8u, finished(b2, totals.y, asked)); }
    if (WIDTH > 3u) { store4(at, 4u * texel0 + 12u, finished(b3, totals.y, asked)); }
    if (WIDTH > 4u) { store4(at, 4u * texel0 + 16u, finished(b4, totals.y, asked)); }
    if (WIDTH > 5u) { store4(at, 4u * texel0 + 20u, finished(b5, totals.y, asked)); }
    if (WIDTH > 6u) { store4(at, 4u * texel0 + 24u, finished(b6, totals.y, asked)); }
    if (WIDTH > 7u) { store4(at, 4u * texel0 + 28u, finished(b7, totals.y, asked)); }
    if (WIDTH > 8u) { store4(at, 4u * texel0 + 32u, finished(b8, totals.y, asked)); }
    if (WIDTH > 9u) { store4(at, 4u * texel0 + 36u, finished(b9, totals.y, asked)); }
    if (WIDTH > 10u) { store4(at, 4u * texel0 + 40u, finished(b10, totals.y, asked)); }
    if (WIDTH > 11u) { store4(at, 4u * texel0 + 44u, finished(b11, totals.y, asked)); }
    if (WIDTH > 12u) { store4(at, 4u * texel0 + 48u, finished(b12, totals.y, asked)); }
    if (WIDTH > 13u) { store4(at, 4u * texel0 + 52u, finished(b13, totals.y, asked)); }
    if (WIDTH > 14u) { store4(at, 4u * texel0 + 56u, finished(b14, totals.y, asked)); }
    if (WIDTH > 15u) { store4(at, 4u * texel0 + 60u, finished(b15, totals.y, asked)); }
  }
  if (rows > 2u) {
    let asked = row_is_asked(query_mask_from, row_c);
    let at = params.out_at + (local_batch * params.n + row_c) * params.p;
    if (texel0 == 0u) { store_total(at, totals.z, asked); }
    if (WIDTH > 0u) { store4(at, 4u * texel0 + 0u, finished(c0, totals.z, asked)); }
    if (WIDTH > 1u) { store4(at, 4u * texel0 + 4u, finished(c1, totals.z, asked)); }
    if (WIDTH > 2u) { store4(at, 4u * texel0 + 8u, finished(c2, totals.z, asked)); }
    if (WIDTH > 3u) { store4(at, 4u * texel0 + 12u, finished(c3, totals.z, asked)); }
    if (WIDTH > 4u) { store4(at, 4u * texel0 + 16u, finished(c4, totals.z, asked)); }
    if (WIDTH > 5u) { store4(at, 4u * texel0 + 20u, finished(c5, totals.z, asked)); }
    if (WIDTH > 6u) { store4(at, 4u * texel0 + 24u, finished(c6, totals.z, asked)); }
    if (WIDTH > 7u) { store4(at, 4u * texel0 + 28u, finished(c7, totals.z, asked)); }
    if (WIDTH > 8u) { store4(at, 4u * texel0 + 32u, finished(c8, totals.z, asked)); }
    if (WIDTH > 9u) { store4(at, 4u * texel0 + 36u, finished(c9, totals.z, asked)); }
    if (WIDTH > 10u) { store4(at, 4u * texel0 + 40u, finished(c10, totals.z, asked)); }
    if (WIDTH > 11u) { store4(at, 4u * texel0 + 44u, finished(c11, totals.z, asked)); }
    if (WIDTH > 12u) { store4(at, 4u * texel0 + 48u, finished(c12, totals.z, asked)); }
    if (WIDTH > 13u) { store4(at, 4u * texel0 + 52u, finished(c13, totals.z, asked)); }
    if (WIDTH > 14u) { store4(at, 4u * texel0 + 56u, finished(c14, totals.z, asked)); }
    if (WIDTH > 15u) { store4(at, 4u * texel0 + 60u, finished(c15, totals.z, asked)); }
  }
  if (rows > 3u) {
    let asked = row_is_asked(query_mask_from, row_d);
    let at = params.out_at + (local_batch * params.n + row_d) * params.p;
    if (texel0 == 0u) { store_total(at, totals.w, asked); }
    if (WIDTH > 0u) { store4(at, 4u * texel0 + 0u, finished(d0, totals.w, asked)); }
    if (WIDTH > 1u) { store4(at, 4u * texel0 + 4u, finished(d1, totals.w, asked)); }
    if (WIDTH > 2u) { store4(at, 4u * texel0 + 8u, finished(d2, totals.w, asked)); }
    if (WIDTH > 3u) { store4(at, 4u * texel0 + 12u, finished(d3, totals.w, asked)); }
    if (WIDTH > 4u) { store4(at, 4u * texel0 + 16u, finished(d4, totals.w, asked)); }
    if (WIDTH > 5u) { store4(at, 4u * texel0 + 20u, finished(d5, totals.w, asked)); }
    if (WIDTH > 6u) { store4(at, 4u * texel0 + 24u, finished(d6, totals.w, asked)); }
    if (WIDTH > 7u) { store4(at, 4u * texel0 + 28u, finished(d7, totals.w, asked)); }
    if (WIDTH > 8u) { store4(at, 4u * texel0 + 32u, finished(d8, totals.w, asked)); }
    if (WIDTH > 9u) { store4(at, 4u * texel0 + 36u, finished(d9, totals.w, asked)); }
    if (WIDTH > 10u) { store4(at, 4u * texel0 + 40u, finished(d10, totals.w, asked)); }
    if (WIDTH > 11u) { store4(at, 4u * texel0 + 44u, finished(d11, totals.w, asked)); }
    if (WIDTH > 12u) { store4(at, 4u * texel0 + 48u, finished(d12, totals.w, asked)); }
    if (WIDTH > 13u) { store4(at, 4u * texel0 + 52u, finished(d13, totals.w, asked)); }
    if (WIDTH > 14u) { store4(at, 4u * texel0 + 56u, finished(d14, totals.w, asked)); }
    if (WIDTH > 15u) { store4(at, 4u * texel0 + 60u, finished(d15, totals.w, asked)); }
  }
}
