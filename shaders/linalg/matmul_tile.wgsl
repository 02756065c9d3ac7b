// A tile of the product for GPUs: ROW_LANES x COL_LANES threads, each a BLOCK x BLOCK square of sums in registers (8, or 4 where the
// product is too small to fill a device with larger ones). Per k a thread of 8 x 8 reads 16 words of workgroup memory for 64
// multiply-adds (4 per word); a tile of 64 x 64 reads 128 words of global memory for 4096 (32 per word), a larger one fewer. Both
// operand tiles are k-major, A with one vec4 of padding per k, so that the transposing store of A does not hit one bank. TILE_K is
// 16, or 8 where workgroup memory is scarce.
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> w: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

const THREADS: u32 = ROW_LANES * COL_LANES;
const ROWS: u32 = BLOCK * ROW_LANES;
const COLS: u32 = BLOCK * COL_LANES;
const ROW_QUADS: u32 = ROWS / 4u;
const W_STRIDE: u32 = COLS / 4u;
const A_STRIDE: u32 = ROW_QUADS + 1u;
const MOST_QUADS: u32 = max(ROW_QUADS, W_STRIDE);
var<workgroup> tile_a: array<vec4f, TILE_K * A_STRIDE>;
var<workgroup> tile_w: array<vec4f, TILE_K * W_STRIDE>;

fn load_a(start: u32, row: u32, k: u32, depth: u32) -> f32 {
  if (row >= params.n || k >= depth) { return 0.0; }
  if (TRANSPOSE_A != 0u) { return a[start + k * params.ac + row]; }
  return a[start + row * params.ac + k];
}

fn load_w(start: u32, k: u32, col: u32, depth: u32) -> f32 {
  if (col >= params.p || k >= depth) { return 0.0; }
  if (TRANSPOSE_W != 0u) { return w[start + col * params.wc + k]; }
  return w[start + k * params.wc + col];
}

fn store(e: Epilogue, row: u32, col: u32, lo: vec4f, hi: vec4f) {
  if (row >= params.n) { return; }
  for (var c = 0u; c < BLOCK; c++) {
    if (col + c < e.columns) {
      let x = select(hi[c & 3u], lo[c & 3u], c < 4u);
      out[e.out_from + row * e.columns + col + c] = epilogue(e, row, col + c, x);
    }
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_tiles = (params.p + COLS - 1u) / COLS;
  let row_tiles = (params.n + ROWS - 1u) / ROWS;
  let local_batch = group / (row_tiles * col_tiles);
  let row0 = (group / col_tiles) % row_tiles * ROWS;
  let col0 = group % col_tiles * COLS;
  let batch = params.batch_from + local_batch;
  let a_from = params.a_at + batch / params.h * params.a_b + batch % params.h * params.a_h;
  let w_from = params.w_at + batch / params.h * params.w_b + batch % params.h * params.w_h;
  let depth = select(params.ac, params.ar, TRANSPOSE_A != 0u);
  let ty = thread / COL_LANES;
  let tx = thread % COL_LANES;

  var c00 = vec4f(); var c01 = vec4f();
  var c10 = vec4f(); var c11 = vec4f();
  var c20 = vec4f(); var c21 = vec4f();
  var c30 = vec4f(); var c31 = vec4f();
  var c40 = vec4f(); var c41 = vec4f();
  var c50 = vec4f(); var c51 = vec4f();
  var c60 = vec4f(); var c61 = vec4f();
  var c70 = vec4f(); var c71 = vec4f();

  for (var k0 = 0u; k0 < depth; k0 += TILE_K) {
    for (var t = thread; t < MOST_QUADS * TILE_K; t += THREADS) {
      // Neighbouring threads walk along the operand's rows in memory: along k, or along rows where it is transposed.
      if (t < ROW_QUADS * TILE_K) {
        let ka = select(t % TILE_K, t / ROW_QUADS, TRANSPOSE_A != 0u);
        let ra = select(t / TILE_K, t % ROW_QUADS, TRANSPOSE_A != 0u);
        let row = row0 + 4u * ra;
        tile_a[ka * A_STRIDE + ra] = vec4f(
          load_a(a_from, row, k0 + ka, depth), load_a(a_from, row + 1u, k0 + ka, depth),
          load_a(a_from, row + 2u, k0 + ka, depth), load_a(a_from, row + 3u, k0 + ka, depth));
      }
      if (t < W_STRIDE * TILE_K) {
        let kw = select(t / W_STRIDE, t % TILE_K, TRANSPOSE_W != 0u);
        let cw = select(t % W_STRIDE, t / TILE_K, TRANSPOSE_W != 0u);
        let col = col0 + 4u * cw;
        tile_w[kw * W_STRIDE + cw] = vec4f(
          load_w(w_from, k0 + kw, col, depth), load_w(w_from, k0 + kw, col + 1u, depth),
          load_w(w_from, k0 + kw, col + 2u, depth), load_w(w_from, k0 + kw, col + 3u, depth));
      }
    }
    workgroupBarrier(); // both tiles are complete before anyone multiplies
    for (var k = 0u; k < TILE_K; k++) {
      let alo = tile_a[k * A_STRIDE + BLOCK / 4u * ty];
      let wlo = tile_w[k * W_STRIDE + BLOCK / 4u * tx];
      c00 += alo.x * wlo; c10 += alo.y * wlo; c20 += alo.z * wlo; c30 += alo.w * wlo;
      if (BLOCK == 8u) {
        let ahi = tile_a[k * A_STRIDE + 2u * ty + 1u];
        let whi = tile_w[k * W_STRIDE + 2u * tx + 1u];
        c01 += alo.x * whi; c11 += alo.y * whi; c21 += alo.z * whi; c31 += alo.w * whi;
        c40 += ahi.x * wlo; c41 += ahi.x * whi;
        c50 += ahi.y * wlo; c51 += ahi.y * whi;
        c60 += ahi.z * wlo; c61 += ahi.z * whi;
        c70 += ahi.w * wlo; c71 += ahi.w * whi;
      }
    }
    workgroupBarrier(); // nobody overwrites a tile that others still read
  }

  let row = row0 + BLOCK * ty;
  let col = col0 + BLOCK * tx;
  let e = epilogue_of(local_batch);
  store(e, row, col, c00, c01);
  store(e, row + 1u, col, c10, c11);
  store(e, row + 2u, col, c20, c21);
  store(e, row + 3u, col, c30, c31);
  if (BLOCK == 8u) {
    store(e, row + 4u, col, c40, c41);
    store(e, row + 5u, col, c50, c51);
    store(e, row + 6u, col, c60, c61);
    store(e, row + 7u, col, c70, c71);
  }
}
