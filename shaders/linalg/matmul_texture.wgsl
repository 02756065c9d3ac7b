// 8 rows x 8 columns per thread, both operands read as texels of four words: on llvmpipe a texel costs a tenth of
// four storage words. The rows of a thread are the same for the whole group of 8 threads (its subgroup), so the
// loads of A are uniform. Only untransposed operands whose rows are whole texels come here.
@group(0) @binding(1) var a: texture_2d<f32>;
@group(0) @binding(2) var w: texture_2d<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

fn texel_a(at: u32) -> vec4f { return textureLoad(a, vec2u(at & 2047u, at >> 11u), 0); }
fn texel_w(at: u32) -> vec4f { return textureLoad(w, vec2u(at & 2047u, at >> 11u), 0); }

fn store(local_batch: u32, row: u32, col: u32, lo: vec4f, hi: vec4f) {
  if (row >= params.n) { return; }
  let at = params.out_at + (local_batch * params.n + row) * params.p + col;
  for (var c = 0u; c < 4u; c++) {
    if (col + c < params.p) { out[at + c] = epilogue(local_batch, row, col + c, lo[c]); }
    if (col + 4u + c < params.p) { out[at + 4u + c] = epilogue(local_batch, row, col + 4u + c, hi[c]); }
  }
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_tiles = (params.p + 63u) / 64u;
  let row_tiles = (params.n + 7u) / 8u;
  let local_batch = group / (row_tiles * col_tiles);
  let row0 = (group / col_tiles) % row_tiles * 8u;
  let col0 = group % col_tiles * 64u + thread * 8u;
  let batch = params.batch_from + local_batch;
  let a_texels = params.ac / 4u;
  let w_texels = params.wc / 4u;
  let last = params.n - 1u;
  let a_from = (params.a_at + batch / params.h * params.a_b + batch % params.h * params.a_h) / 4u;
  let w_from = (params.w_at + batch / params.h * params.w_b + batch % params.h * params.w_h) / 4u;
  let lo_col = min(col0 / 4u, w_texels - 1u);
  let hi_col = min(col0 / 4u + 1u, w_texels - 1u);
  var at_a0 = a_from + row0 * a_texels;
  var at_a1 = a_from + min(row0 + 1u, last) * a_texels;
  var at_a2 = a_from + min(row0 + 2u, last) * a_texels;
  var at_a3 = a_from + min(row0 + 3u, last) * a_texels;
  var at_a4 = a_from + min(row0 + 4u, last) * a_texels;
  var at_a5 = a_from + min(row0 + 5u, last) * a_texels;
  var at_a6 = a_from + min(row0 + 6u, last) * a_texels;
  var at_a7 = a_from + min(row0 + 7u, last) * a_texels;
  var c00 = vec4f(); var c01 = vec4f();
  var c10 = vec4f(); var c11 = vec4f();
  var c20 = vec4f(); var c21 = vec4f();
  var c30 = vec4f(); var c31 = vec4f();
  var c40 = vec4f(); var c41 = vec4f();
  var c50 = vec4f(); var c51 = vec4f();
  var c60 = vec4f(); var c61 = vec4f();
  var c70 = vec4f(); var c71 = vec4f();
  for (var k = 0u; k < a_texels; k++) {
    let a0 = texel_a(at_a0 + k); let a1 = texel_a(at_a1 + k);
    let a2 = texel_a(at_a2 + k); let a3 = texel_a(at_a3 + k);
    let a4 = texel_a(at_a4 + k); let a5 = texel_a(at_a5 + k);
    let a6 = texel_a(at_a6 + k); let a7 = texel_a(at_a7 + k);
    let line = w_from + 4u * k * w_texels;
    let x0 = texel_w(line + lo_col); let y0 = texel_w(line + hi_col);
    c00 += a0.x * x0; c01 += a0.x * y0; c10 += a1.x * x0; c11 += a1.x * y0;
    c20 += a2.x * x0; c21 += a2.x * y0; c30 += a3.x * x0; c31 += a3.x * y0;
    c40 += a4.x * x0; c41 += a4.x * y0; c50 += a5.x * x0; c51 += a5.x * y0;
    c60 += a6.x * x0; c61 += a6.x * y0; c70 += a7.x * x0; c71 += a7.x * y0;
    let x1 = texel_w(line + w_texels + lo_col); let y1 = texel_w(line + w_texels + hi_col);
    c00 += a0.y * x1; c01 += a0.y * y1; c10 += a1.y * x1; c11 += a1.y * y1;
    c20 += a2.y * x1; c21 += a2.y * y1; c30 += a3.y * x1; c31 += a3.y * y1;
    c40 += a4.y * x1; c41 += a4.y * y1; c50 += a5.y * x1; c51 += a5.y * y1;
    c60 += a6.y * x1; c61 += a6.y * y1; c70 += a7.y * x1; c71 += a7.y * y1;
    let x2 = texel_w(line + 2u * w_texels + lo_col); let y2 = texel_w(line + 2u * w_texels + hi_col);
    c00 += a0.z * x2; c01 += a0.z * y2; c10 += a1.z * x2; c11 += a1.z * y2;
    c20 += a2.z * x2; c21 += a2.z * y2; c30 += a3.z * x2; c31 += a3.z * y2;
    c40 += a4.z * x2; c41 += a4.z * y2; c50 += a5.z * x2; c51 += a5.z * y2;
    c60 += a6.z * x2; c61 += a6.z * y2; c70 += a7.z * x2; c71 += a7.z * y2;
    let x3 = texel_w(line + 3u * w_texels + lo_col); let y3 = texel_w(line + 3u * w_texels + hi_col);
    c00 += a0.w * x3; c01 += a0.w * y3; c10 += a1.w * x3; c11 += a1.w * y3;
    c20 += a2.w * x3; c21 += a2.w * y3; c30 += a3.w * x3; c31 += a3.w * y3;
    c40 += a4.w * x3; c41 += a4.w * y3; c50 += a5.w * x3; c51 += a5.w * y3;
    c60 += a6.w * x3; c61 += a6.w * y3; c70 += a7.w * x3; c71 += a7.w * y3;
  }
  store(local_batch, row0, col0, c00, c01);
  store(local_batch, row0 + 1u, col0, c10, c11);
  store(local_batch, row0 + 2u, col0, c20, c21);
  store(local_batch, row0 + 3u, col0, c30, c31);
  store(local_batch, row0 + 4u, col0, c40, c41);
  store(local_batch, row0 + 5u, col0, c50, c51);
  store(local_batch, row0 + 6u, col0, c60, c61);
  store(local_batch, row0 + 7u, col0, c70, c71);
}
