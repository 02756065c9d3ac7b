// 8 rows x 8 columns per thread, both operands read as texels of four words: on llvmpipe a texel costs a tenth of four
// storage words, and less than half of one. COL_LANES of the 8 threads lie side by side, the others below them, so that
// narrow results waste none. Operands come untransposed; where rows are not whole texels (A_WHOLE, W_WHOLE),
// neighbouring texels are shifted into place.
@group(0) @binding(1) var a: texture_2d<f32>;
@group(0) @binding(2) var w: texture_2d<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

fn texel_a(at: u32) -> vec4f { return textureLoad(a, texel_place(at), 0); }
fn texel_w(at: u32) -> vec4f { return textureLoad(w, texel_place(at), 0); }

// Eight words of a row of W; what lies past its end belongs to columns that are not stored.
fn line_of_w(at: u32) -> Eight {
  let t = at >> 2u;
  let lo = texel_w(t);
  let hi = texel_w(t + 1u);
  if (W_WHOLE) { return Eight(lo, hi); }
  return Eight(shifted(lo, hi, at), shifted(hi, texel_w(t + 2u), at));
}

fn store(e: Epilogue, row: u32, col: u32, lo: vec4f, hi: vec4f) {
  if (row >= params.n) { return; }
  let at = e.out_from + row * e.columns + col;
  if (col < e.columns) { out[at] = epilogue(e, row, col, lo.x); }
  if (col + 1u < e.columns) { out[at + 1u] = epilogue(e, row, col + 1u, lo.y); }
  if (col + 2u < e.columns) { out[at + 2u] = epilogue(e, row, col + 2u, lo.z); }
  if (col + 3u < e.columns) { out[at + 3u] = epilogue(e, row, col + 3u, lo.w); }
  if (col + 4u < e.columns) { out[at + 4u] = epilogue(e, row, col + 4u, hi.x); }
  if (col + 5u < e.columns) { out[at + 5u] = epilogue(e, row, col + 5u, hi.y); }
  if (col + 6u < e.columns) { out[at + 6u] = epilogue(e, row, col + 6u, hi.z); }
  if (col + 7u < e.columns) { out[at + 7u] = epilogue(e, row, col + 7u, hi.w); }
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_tiles = (params.p + 8u * COL_LANES - 1u) / (8u * COL_LANES);
  let rows_per_tile = 64u / COL_LANES;
  let row_tiles = (params.n + rows_per_tile - 1u) / rows_per_tile;
  let local_batch = group / (row_tiles * col_tiles);
  let row0 = (group / col_tiles) % row_tiles * rows_per_tile + thread / COL_LANES * 8u;
  let col0 = (group % col_tiles * COL_LANES + thread % COL_LANES) * 8u;
  let batch = params.batch_from + local_batch;
  let depth = params.ac;
  let w_columns = params.wc;
  let last = params.n - 1u;
  let a_from = params.a_at + batch / params.h * params.a_b + batch % params.h * params.a_h;
  let w_from = params.w_at + batch / params.h * params.w_b + batch % params.h * params.w_h + col0;
  let from0 = a_from + min(row0, last) * depth;
  let from1 = a_from + min(row0 + 1u, last) * depth;
  let from2 = a_from + min(row0 + 2u, last) * depth;
  let from3 = a_from + min(row0 + 3u, last) * depth;
  let from4 = a_from + min(row0 + 4u, last) * depth;
  let from5 = a_from + min(row0 + 5u, last) * depth;
  let from6 = a_from + min(row0 + 6u, last) * depth;
  let from7 = a_from + min(row0 + 7u, last) * depth;
  // The texel before the one that a shift completes.
  var e0 = vec4f(); if (!A_WHOLE) { e0 = texel_a(from0 >> 2u); }
  var e1 = vec4f(); if (!A_WHOLE) { e1 = texel_a(from1 >> 2u); }
  var e2 = vec4f(); if (!A_WHOLE) { e2 = texel_a(from2 >> 2u); }
  var e3 = vec4f(); if (!A_WHOLE) { e3 = texel_a(from3 >> 2u); }
  var e4 = vec4f(); if (!A_WHOLE) { e4 = texel_a(from4 >> 2u); }
  var e5 = vec4f(); if (!A_WHOLE) { e5 = texel_a(from5 >> 2u); }
  var e6 = vec4f(); if (!A_WHOLE) { e6 = texel_a(from6 >> 2u); }
  var e7 = vec4f(); if (!A_WHOLE) { e7 = texel_a(from7 >> 2u); }
  var c0 = vec4f(); var d0 = vec4f();
  var c1 = vec4f(); var d1 = vec4f();
  var c2 = vec4f(); var d2 = vec4f();
  var c3 = vec4f(); var d3 = vec4f();
  var c4 = vec4f(); var d4 = vec4f();
  var c5 = vec4f(); var d5 = vec4f();
  var c6 = vec4f(); var d6 = vec4f();
  var c7 = vec4f(); var d7 = vec4f();
  for (var k = 0u; k < depth; k += 4u) {
    var a0 = texel_a((from0 + k) / 4u + select(1u, 0u, A_WHOLE));
    var a1 = texel_a((from1 + k) / 4u + select(1u, 0u, A_WHOLE));
    var a2 = texel_a((from2 + k) / 4u + select(1u, 0u, A_WHOLE));
    var a3 = texel_a((from3 + k) / 4u + select(1u, 0u, A_WHOLE));
    var a4 = texel_a((from4 + k) / 4u + select(1u, 0u, A_WHOLE));
    var a5 = texel_a((from5 + k) / 4u + select(1u, 0u, A_WHOLE));
    var a6 = texel_a((from6 + k) / 4u + select(1u, 0u, A_WHOLE));
    var a7 = texel_a((from7 + k) / 4u + select(1u, 0u, A_WHOLE));
    if (!A_WHOLE) {
      // Past the end of a row stands the next one: nothing of it may count.
      let inside = vec4u(0u, 1u, 2u, 3u) + vec4u(k) < vec4u(depth);
      let t0 = a0; a0 = select(vec4f(), shifted(e0, t0, from0), inside); e0 = t0;
      let t1 = a1; a1 = select(vec4f(), shifted(e1, t1, from1), inside); e1 = t1;
      let t2 = a2; a2 = select(vec4f(), shifted(e2, t2, from2), inside); e2 = t2;
      let t3 = a3; a3 = select(vec4f(), shifted(e3, t3, from3), inside); e3 = t3;
      let t4 = a4; a4 = select(vec4f(), shifted(e4, t4, from4), inside); e4 = t4;
      let t5 = a5; a5 = select(vec4f(), shifted(e5, t5, from5), inside); e5 = t5;
      let t6 = a6; a6 = select(vec4f(), shifted(e6, t6, from6), inside); e6 = t6;
      let t7 = a7; a7 = select(vec4f(), shifted(e7, t7, from7), inside); e7 = t7;
    }
    let l0 = line_of_w(w_from + k * w_columns);
    c0 += a0.x * l0.lo; c1 += a1.x * l0.lo; c2 += a2.x * l0.lo; c3 += a3.x * l0.lo;
    c4 += a4.x * l0.lo; c5 += a5.x * l0.lo; c6 += a6.x * l0.lo; c7 += a7.x * l0.lo;
    d0 += a0.x * l0.hi; d1 += a1.x * l0.hi; d2 += a2.x * l0.hi; d3 += a3.x * l0.hi;
    d4 += a4.x * l0.hi; d5 += a5.x * l0.hi; d6 += a6.x * l0.hi; d7 += a7.x * l0.hi;
    let l1 = line_of_w(w_from + min(k + 1u, depth - 1u) * w_columns);
    c0 += a0.y * l1.lo; c1 += a1.y * l1.lo; c2 += a2.y * l1.lo; c3 += a3.y * l1.lo;
    c4 += a4.y * l1.lo; c5 += a5.y * l1.lo; c6 += a6.y * l1.lo; c7 += a7.y * l1.lo;
    d0 += a0.y * l1.hi; d1 += a1.y * l1.hi; d2 += a2.y * l1.hi; d3 += a3.y * l1.hi;
    d4 += a4.y * l1.hi; d5 += a5.y * l1.hi; d6 += a6.y * l1.hi; d7 += a7.y * l1.hi;
    let l2 = line_of_w(w_from + min(k + 2u, depth - 1u) * w_columns);
    c0 += a0.z * l2.lo; c1 += a1.z * l2.lo; c2 += a2.z * l2.lo; c3 += a3.z * l2.lo;
    c4 += a4.z * l2.lo; c5 += a5.z * l2.lo; c6 += a6.z * l2.lo; c7 += a7.z * l2.lo;
    d0 += a0.z * l2.hi; d1 += a1.z * l2.hi; d2 += a2.z * l2.hi; d3 += a3.z * l2.hi;
    d4 += a4.z * l2.hi; d5 += a5.z * l2.hi; d6 += a6.z * l2.hi; d7 += a7.z * l2.hi;
    let l3 = line_of_w(w_from + min(k + 3u, depth - 1u) * w_columns);
    c0 += a0.w * l3.lo; c1 += a1.w * l3.lo; c2 += a2.w * l3.lo; c3 += a3.w * l3.lo;
    c4 += a4.w * l3.lo; c5 += a5.w * l3.lo; c6 += a6.w * l3.lo; c7 += a7.w * l3.lo;
    d0 += a0.w * l3.hi; d1 += a1.w * l3.hi; d2 += a2.w * l3.hi; d3 += a3.w * l3.hi;
    d4 += a4.w * l3.hi; d5 += a5.w * l3.hi; d6 += a6.w * l3.hi; d7 += a7.w * l3.hi;
  }
  let e = epilogue_of(local_batch);
  store(e, row0, col0, c0, d0);
  store(e, row0 + 1u, col0, c1, d1);
  store(e, row0 + 2u, col0, c2, d2);
  store(e, row0 + 3u, col0, c3, d3);
  store(e, row0 + 4u, col0, c4, d4);
  store(e, row0 + 5u, col0, c5, d5);
  store(e, row0 + 6u, col0, c6, d6);
  store(e, row0 + 7u, col0, c7, d7);
}
