// 8 BLOCKS rows x 4 or 8 (WIDE) columns per thread, the columns of the 8 threads side by side. A thread loads its own texels of W, but
// of A only those of one row in eight: subgroup broadcasts bring the others, and on llvmpipe they cost next to nothing beside a texel.
// A row takes all four steps of the inner dimension before the next one's turn, so that its sums stay in registers meanwhile.
// Operands come untransposed; where rows are not whole texels (A_WHOLE, W_WHOLE), neighbouring texels are shifted into place.
@group(0) @binding(1) var a: texture_2d<f32>;
@group(0) @binding(2) var w: texture_2d<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

// Eight rows of sums: four columns, and four more.
struct Block {
  c0: vec4f, c1: vec4f, c2: vec4f, c3: vec4f, c4: vec4f, c5: vec4f, c6: vec4f, c7: vec4f,
  d0: vec4f, d1: vec4f, d2: vec4f, d3: vec4f, d4: vec4f, d5: vec4f, d6: vec4f, d7: vec4f,
}

// Four rows of W, four columns of each.
struct Panel { x: vec4f, y: vec4f, z: vec4f, w: vec4f }

// Where this thread's row of a block lies in A, and the texel before the one that a shift completes.
struct Source { start: u32, carried: vec4f }

fn texel_a(at: u32) -> vec4f { return textureLoad(a, texel_place(at), 0); }
fn texel_w(at: u32) -> vec4f { return textureLoad(w, texel_place(at), 0); }

fn source_of(row: u32, a_from: u32) -> Source {
  let start = a_from + min(row, params.n - 1u) * params.ac;
  if (A_WHOLE) { return Source(start / 4u, vec4f()); }
  return Source(start, texel_a(start / 4u));
}

// Four words of the row from its word k on, and zero past its end.
fn next_of_a(s: ptr<function, Source>, k: u32) -> vec4f {
  if (A_WHOLE) { return texel_a((*s).start + k / 4u); }
  let hi = texel_a(((*s).start + k) / 4u + 1u);
  let words = shifted((*s).carried, hi, (*s).start);
  (*s).carried = hi;
  return select(vec4f(), words, vec4u(0u, 1u, 2u, 3u) + vec4u(k) < vec4u(params.ac));
}

// Eight words of a row of W; what lies past its end belongs to columns that are not stored.
fn line_of_w(at: u32) -> Eight {
  let t = at / 4u;
  let lo = texel_w(t);
  if (W_WHOLE) {
    if (WIDE) { return Eight(lo, texel_w(t + 1u)); }
    return Eight(lo, vec4f());
  }
  let hi = texel_w(t + 1u);
  if (WIDE) { return Eight(shifted(lo, hi, at), shifted(hi, texel_w(t + 2u), at)); }
  return Eight(shifted(lo, hi, at), vec4f());
}

fn gained(sums: vec4f, of_a: vec4f, of_w: Panel) -> vec4f {
  return (((sums + of_a.x * of_w.x) + of_a.y * of_w.y) + of_a.z * of_w.z) + of_a.w * of_w.w;
}

fn grow(s: ptr<function, Block>, own: vec4f, lo: Panel, hi: Panel) {
  let a0 = subgroupBroadcast(own, 0u); (*s).c0 = gained((*s).c0, a0, lo); if (WIDE) { (*s).d0 = gained((*s).d0, a0, hi); }
  let a1 = subgroupBroadcast(own, 1u); (*s).c1 = gained((*s).c1, a1, lo); if (WIDE) { (*s).d1 = gained((*s).d1, a1, hi); }
  let a2 = subgroupBroadcast(own, 2u); (*s).c2 = gained((*s).c2, a2, lo); if (WIDE) { (*s).d2 = gained((*s).d2, a2, hi); }
  let a3 = subgroupBroadcast(own, 3u); (*s).c3 = gained((*s).c3, a3, lo); if (WIDE) { (*s).d3 = gained((*s).d3, a3, hi); }
  let a4 = subgroupBroadcast(own, 4u); (*s).c4 = gained((*s).c4, a4, lo); if (WIDE) { (*s).d4 = gained((*s).d4, a4, hi); }
  let a5 = subgroupBroadcast(own, 5u); (*s).c5 = gained((*s).c5, a5, lo); if (WIDE) { (*s).d5 = gained((*s).d5, a5, hi); }
  let a6 = subgroupBroadcast(own, 6u); (*s).c6 = gained((*s).c6, a6, lo); if (WIDE) { (*s).d6 = gained((*s).d6, a6, hi); }
  let a7 = subgroupBroadcast(own, 7u); (*s).c7 = gained((*s).c7, a7, lo); if (WIDE) { (*s).d7 = gained((*s).d7, a7, hi); }
}

fn store4(e: Epilogue, row: u32, col: u32, x: vec4f) {
  let at = e.out_from + row * e.columns + col;
  if (col < e.columns) { out[at] = epilogue(e, row, col, x.x); }
  if (col + 1u < e.columns) { out[at + 1u] = epilogue(e, row, col + 1u, x.y); }
  if (col + 2u < e.columns) { out[at + 2u] = epilogue(e, row, col + 2u, x.z); }
  if (col + 3u < e.columns) { out[at + 3u] = epilogue(e, row, col + 3u, x.w); }
}

fn store(e: Epilogue, row: u32, col: u32, lo: vec4f, hi: vec4f) {
  if (row >= params.n) { return; }
  store4(e, row, col, lo);
  if (WIDE) { store4(e, row, col + 4u, hi); }
}

fn store_block(e: Epilogue, row: u32, col: u32, s: Block) {
  store(e, row, col, s.c0, s.d0);
  store(e, row + 1u, col, s.c1, s.d1);
  store(e, row + 2u, col, s.c2, s.d2);
  store(e, row + 3u, col, s.c3, s.d3);
  store(e, row + 4u, col, s.c4, s.d4);
  store(e, row + 5u, col, s.c5, s.d5);
  store(e, row + 6u, col, s.c6, s.d6);
  store(e, row + 7u, col, s.c7, s.d7);
}

@compute @workgroup_size(8)
fn main(
  @builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32,
  @builtin(subgroup_invocation_id) lane: u32,
) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let width = select(4u, 8u, WIDE);
  let col_tiles = (params.p + 8u * width - 1u) / (8u * width);
  let row_tiles = (params.n + 8u * BLOCKS - 1u) / (8u * BLOCKS);
  let local_batch = group / (row_tiles * col_tiles);
  let row0 = (group / col_tiles) % row_tiles * 8u * BLOCKS;
  let col0 = (group % col_tiles * 8u + thread) * width;
  let batch = params.batch_from + local_batch;
  let last = params.ac - 1u;
  let w_columns = params.wc;
  let a_from = params.a_at + batch / params.h * params.a_b + batch % params.h * params.a_h;
  let w_from = params.w_at + batch / params.h * params.w_b + batch % params.h * params.w_h + col0;
  var from0 = source_of(row0 + lane, a_from);
  var from1 = Source(); if (BLOCKS > 1u) { from1 = source_of(row0 + 8u + lane, a_from); }
  var from2 = Source(); if (BLOCKS > 2u) { from2 = source_of(row0 + 16u + lane, a_from); }
  var from3 = Source(); if (BLOCKS > 3u) { from3 = source_of(row0 + 24u + lane, a_from); }
  var s0 = Block(); var s1 = Block(); var s2 = Block(); var s3 = Block();
  for (var k = 0u; k <= last; k += 4u) {
    let x = line_of_w(w_from + k * w_columns);
    let y = line_of_w(w_from + min(k + 1u, last) * w_columns);
    let z = line_of_w(w_from + min(k + 2u, last) * w_columns);
    let w = line_of_w(w_from + min(k + 3u, last) * w_columns);
    let lo = Panel(x.lo, y.lo, z.lo, w.lo);
    let hi = Panel(x.hi, y.hi, z.hi, w.hi);
    grow(&s0, next_of_a(&from0, k), lo, hi);
    if (BLOCKS > 1u) { grow(&s1, next_of_a(&from1, k), lo, hi); }
    if (BLOCKS > 2u) { grow(&s2, next_of_a(&from2, k), lo, hi); }
    if (BLOCKS > 3u) { grow(&s3, next_of_a(&from3, k), lo, hi); }
  }
  let e = epilogue_of(local_batch);
  store_block(e, row0, col0, s0);
  if (BLOCKS > 1u) { store_block(e, row0 + 8u, col0, s1); }
  if (BLOCKS > 2u) { store_block(e, row0 + 16u, col0, s2); }
  if (BLOCKS > 3u) { store_block(e, row0 + 24u, col0, s3); }
}
