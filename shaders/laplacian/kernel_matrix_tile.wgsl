// A tile of rows x landmarks for GPUs: ROW_LANES x COL_LANES threads, each a BLOCK x BLOCK square of pairs in registers (8, or 4 where
// the matrix is too small to fill a device with larger ones), coordinates in slices of TILE_K. Per coordinate a thread of 8 x 8 reads
// 16 words of workgroup memory for 64 pairs (4 per word); a tile of 64 x 64 reads 128 words of global memory for 4096 (32 per word).
// Same layout as the matmul tile.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read> lambda: array<f32>;
@group(0) @binding(4) var<storage, read> x_keep: array<u32>;
@group(0) @binding(5) var<storage, read> y_keep: array<u32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;

const THREADS: u32 = ROW_LANES * COL_LANES;
const ROWS: u32 = BLOCK * ROW_LANES;
const COLS: u32 = BLOCK * COL_LANES;
// One vec4 of padding per coordinate: the transposing stores would hit one bank.
const X_STRIDE: u32 = ROWS / 4u + 1u;
const Y_STRIDE: u32 = COLS / 4u + 1u;
const MOST_QUADS: u32 = max(ROWS, COLS) / 4u;
var<workgroup> tile_x: array<vec4f, TILE_K * X_STRIDE>;
var<workgroup> tile_y: array<vec4f, TILE_K * Y_STRIDE>;

fn load_x(start: u32, row: u32, k: u32) -> f32 {
  if (row >= params.n || k >= params.d) { return 0.0; }
  return x[start + row * params.d + k];
}

fn load_y(start: u32, row: u32, k: u32) -> f32 {
  if (row >= params.m || k >= params.d) { return 0.0; }
  return y[start + row * params.d + k];
}

fn store(local_batch: u32, row: u32, col: u32, lo: vec4f, hi: vec4f) {
  if (row >= params.n) { return; }
  let batch = params.batch_from + local_batch;
  let bandwidth = bandwidth_of(batch % params.h);
  for (var c = 0u; c < BLOCK; c++) {
    if (col + c < params.m) {
      let distance = select(hi[c & 3u], lo[c & 3u], c < 4u);
      out[params.out_at + (local_batch * params.n + row) * params.m + col + c] = entry(batch, row, col + c, distance, bandwidth);
    }
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_tiles = (params.m + COLS - 1u) / COLS;
  let row_tiles = (params.n + ROWS - 1u) / ROWS;
  let local_batch = group / (row_tiles * col_tiles);
  let row0 = (group / col_tiles) % row_tiles * ROWS;
  let col0 = group % col_tiles * COLS;
  let x_start = params.x_at + local_batch * params.n * params.d;
  let y_start = params.y_at + local_batch * params.m * params.d;
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

  for (var k0 = 0u; k0 < params.d; k0 += TILE_K) {
    for (var t = thread; t < MOST_QUADS * TILE_K; t += THREADS) {
      // Neighbouring threads read neighbouring coordinates of one row.
      let k = t % TILE_K;
      let quad = t / TILE_K;
      let row = row0 + 4u * quad;
      let col = col0 + 4u * quad;
      if (4u * quad < ROWS) {
        tile_x[k * X_STRIDE + quad] = vec4f(load_x(x_start, row, k0 + k), load_x(x_start, row + 1u, k0 + k),
          load_x(x_start, row + 2u, k0 + k), load_x(x_start, row + 3u, k0 + k));
      }
      if (4u * quad < COLS) {
        tile_y[k * Y_STRIDE + quad] = vec4f(load_y(y_start, col, k0 + k), load_y(y_start, col + 1u, k0 + k),
          load_y(y_start, col + 2u, k0 + k), load_y(y_start, col + 3u, k0 + k));
      }
    }
    workgroupBarrier(); // both tiles are complete before anyone reads them
    for (var k = 0u; k < TILE_K; k++) {
      let xlo = tile_x[k * X_STRIDE + BLOCK / 4u * ty];
      let ylo = tile_y[k * Y_STRIDE + BLOCK / 4u * tx];
      c00 += gap4(vec4f(xlo.x), ylo); c10 += gap4(vec4f(xlo.y), ylo);
      c20 += gap4(vec4f(xlo.z), ylo); c30 += gap4(vec4f(xlo.w), ylo);
      if (BLOCK == 8u) {
        let xhi = tile_x[k * X_STRIDE + 2u * ty + 1u];
        let yhi = tile_y[k * Y_STRIDE + 2u * tx + 1u];
        c01 += gap4(vec4f(xlo.x), yhi); c11 += gap4(vec4f(xlo.y), yhi);
        c21 += gap4(vec4f(xlo.z), yhi); c31 += gap4(vec4f(xlo.w), yhi);
        c40 += gap4(vec4f(xhi.x), ylo); c41 += gap4(vec4f(xhi.x), yhi);
        c50 += gap4(vec4f(xhi.y), ylo); c51 += gap4(vec4f(xhi.y), yhi);
        c60 += gap4(vec4f(xhi.z), ylo); c61 += gap4(vec4f(xhi.z), yhi);
        c70 += gap4(vec4f(xhi.w), ylo); c71 += gap4(vec4f(xhi.w), yhi);
      }
    }
    workgroupBarrier(); // nobody overwrites a tile that others still read
  }

  let row = row0 + BLOCK * ty;
  let col = col0 + BLOCK * tx;
  store(local_batch, row, col, c00, c01);
  store(local_batch, row + 1u, col, c10, c11);
  store(local_batch, row + 2u, col, c20, c21);
  store(local_batch, row + 3u, col, c30, c31);
  if (BLOCK == 8u) {
    store(local_batch, row + 4u, col, c40, c41);
    store(local_batch, row + 5u, col, c50, c51);
    store(local_batch, row + 6u, col, c60, c61);
    store(local_batch, row + 7u, col, c70, c71);
  }
}
