// 8 x 8 sums of A^T W over one chunk of rows per thread, both operands read as texels of four words; COL_LANES of the 8
// threads lie side by side, the others below them. See matmul_texture.wgsl.
@group(0) @binding(1) var a: texture_2d<f32>;
@group(0) @binding(2) var w: texture_2d<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

fn texel_a(at: u32) -> vec4f { return textureLoad(a, texel_place(at), 0); }
fn texel_w(at: u32) -> vec4f { return textureLoad(w, texel_place(at), 0); }

// Eight words of a row; what lies past its end belongs to sums that are not stored.
fn eight_of_a(at: u32) -> Eight {
  let t = at >> 2u;
  let lo = texel_a(t);
  let hi = texel_a(t + 1u);
  if (A_WHOLE) { return Eight(lo, hi); }
  return Eight(shifted(lo, hi, at), shifted(hi, texel_a(t + 2u), at));
}

fn eight_of_w(at: u32) -> Eight {
  let t = at >> 2u;
  let lo = texel_w(t);
  let hi = texel_w(t + 1u);
  if (W_WHOLE) { return Eight(lo, hi); }
  return Eight(shifted(lo, hi, at), shifted(hi, texel_w(t + 2u), at));
}

fn store(from_row: u32, row: u32, col: u32, lo: vec4f, hi: vec4f) {
  let columns = params.p;
  if (row >= params.m) { return; }
  let at = from_row + row * columns + col;
  if (col < columns) { out[at] = lo.x; }
  if (col + 1u < columns) { out[at + 1u] = lo.y; }
  if (col + 2u < columns) { out[at + 2u] = lo.z; }
  if (col + 3u < columns) { out[at + 3u] = lo.w; }
  if (col + 4u < columns) { out[at + 4u] = hi.x; }
  if (col + 5u < columns) { out[at + 5u] = hi.y; }
  if (col + 6u < columns) { out[at + 6u] = hi.z; }
  if (col + 7u < columns) { out[at + 7u] = hi.w; }
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_tiles = (params.p + 8u * COL_LANES - 1u) / (8u * COL_LANES);
  let rows_per_tile = 64u / COL_LANES;
  let row_tiles = (params.m + rows_per_tile - 1u) / rows_per_tile;
  let place = group / (row_tiles * col_tiles); // local head and chunk
  let row0 = (group / col_tiles) % row_tiles * rows_per_tile + thread / COL_LANES * 8u;
  let col0 = (group % col_tiles * COL_LANES + thread % COL_LANES) * 8u;
  let local_batch = place / params.c;
  let first = place % params.c * params.rows;
  let end = min(first + params.rows, params.n);
  let a_columns = params.m;
  let w_columns = params.p;
  var at_a = params.a_at + (local_batch * params.n + first) * a_columns + row0;
  var at_w = params.w_at + (local_batch * params.n + first) * w_columns + col0;
  var c0 = vec4f(); var d0 = vec4f();
  var c1 = vec4f(); var d1 = vec4f();
  var c2 = vec4f(); var d2 = vec4f();
  var c3 = vec4f(); var d3 = vec4f();
  var c4 = vec4f(); var d4 = vec4f();
  var c5 = vec4f(); var d5 = vec4f();
  var c6 = vec4f(); var d6 = vec4f();
  var c7 = vec4f(); var d7 = vec4f();
  for (var i = first; i < end; i++) {
    let x = eight_of_a(at_a);
    let y = eight_of_w(at_w);
    at_a += a_columns;
    at_w += w_columns;
    c0 += x.lo.x * y.lo; c1 += x.lo.y * y.lo; c2 += x.lo.z * y.lo; c3 += x.lo.w * y.lo;
    c4 += x.hi.x * y.lo; c5 += x.hi.y * y.lo; c6 += x.hi.z * y.lo; c7 += x.hi.w * y.lo;
    d0 += x.lo.x * y.hi; d1 += x.lo.y * y.hi; d2 += x.lo.z * y.hi; d3 += x.lo.w * y.hi;
    d4 += x.hi.x * y.hi; d5 += x.hi.y * y.hi; d6 += x.hi.z * y.hi; d7 += x.hi.w * y.hi;
  }
  let from_row = params.out_at + place * a_columns * w_columns;
  store(from_row, row0, col0, c0, d0);
  store(from_row, row0 + 1u, col0, c1, d1);
  store(from_row, row0 + 2u, col0, c2, d2);
  store(from_row, row0 + 3u, col0, c3, d3);
  store(from_row, row0 + 4u, col0, c4, d4);
  store(from_row, row0 + 5u, col0, c5, d5);
  store(from_row, row0 + 6u, col0, c6, d6);
  store(from_row, row0 + 7u, col0, c7, d7);
}
