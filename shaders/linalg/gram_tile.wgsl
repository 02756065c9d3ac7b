// 64 x 64 tile of A^T W over one chunk of rows, for GPUs: 64 threads, each an 8 x 8 block in registers, rows in slices of
// TILE_K. Both operands are read along their rows, so neighbouring threads read neighbouring words; per row a thread
// reads 16 words of workgroup memory for 64 multiply-adds.
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> w: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

const A_STRIDE: u32 = 16u;
const W_STRIDE: u32 = 16u;
var<workgroup> tile_a: array<vec4f, TILE_K * A_STRIDE>;
var<workgroup> tile_w: array<vec4f, TILE_K * W_STRIDE>;

fn load_a(start: u32, i: u32, end: u32, col: u32) -> f32 {
  if (i >= end || col >= params.m) { return 0.0; }
  return a[start + i * params.m + col];
}

fn load_w(start: u32, i: u32, end: u32, col: u32) -> f32 {
  if (i >= end || col >= params.p) { return 0.0; }
  return w[start + i * params.p + col];
}

fn store(place: u32, row: u32, col: u32, lo: vec4f, hi: vec4f) {
  if (row >= params.m) { return; }
  for (var c = 0u; c < 8u; c++) {
    if (col + c < params.p) {
      out[params.out_at + (place * params.m + row) * params.p + col + c] = select(hi[c & 3u], lo[c & 3u], c < 4u);
    }
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_tiles = (params.p + 63u) / 64u;
  let row_tiles = (params.m + 63u) / 64u;
  let place = group / (row_tiles * col_tiles); // local head and chunk
  let row0 = (group / col_tiles) % row_tiles * 64u;
  let col0 = group % col_tiles * 64u;
  let local_batch = place / params.c;
  let a_start = params.a_at + local_batch * params.n * params.m;
  let w_start = params.w_at + local_batch * params.n * params.p;
  let first = place % params.c * params.rows;
  let end = min(first + params.rows, params.n);
  let ty = thread / 8u;
  let tx = thread % 8u;

  var c00 = vec4f(); var c01 = vec4f();
  var c10 = vec4f(); var c11 = vec4f();
  var c20 = vec4f(); var c21 = vec4f();
  var c30 = vec4f(); var c31 = vec4f();
  var c40 = vec4f(); var c41 = vec4f();
  var c50 = vec4f(); var c51 = vec4f();
  var c60 = vec4f(); var c61 = vec4f();
  var c70 = vec4f(); var c71 = vec4f();

  for (var k0 = first; k0 < end; k0 += TILE_K) {
    for (var t = thread; t < 16u * TILE_K; t += 64u) {
      let k = t / 16u;
      let quad = t % 16u;
      let row = row0 + 4u * quad;
      let col = col0 + 4u * quad;
      tile_a[k * A_STRIDE + quad] = vec4f(load_a(a_start, k0 + k, end, row), load_a(a_start, k0 + k, end, row + 1u),
        load_a(a_start, k0 + k, end, row + 2u), load_a(a_start, k0 + k, end, row + 3u));
      tile_w[k * W_STRIDE + quad] = vec4f(load_w(w_start, k0 + k, end, col), load_w(w_start, k0 + k, end, col + 1u),
        load_w(w_start, k0 + k, end, col + 2u), load_w(w_start, k0 + k, end, col + 3u));
    }
    workgroupBarrier(); // both tiles are complete before anyone multiplies
    for (var k = 0u; k < TILE_K; k++) {
      let alo = tile_a[k * A_STRIDE + 2u * ty];
      let ahi = tile_a[k * A_STRIDE + 2u * ty + 1u];
      let wlo = tile_w[k * W_STRIDE + 2u * tx];
      let whi = tile_w[k * W_STRIDE + 2u * tx + 1u];
      c00 += alo.x * wlo; c01 += alo.x * whi;
      c10 += alo.y * wlo; c11 += alo.y * whi;
      c20 += alo.z * wlo; c21 += alo.z * whi;
      c30 += alo.w * wlo; c31 += alo.w * whi;
      c40 += ahi.x * wlo; c41 += ahi.x * whi;
      c50 += ahi.y * wlo; c51 += ahi.y * whi;
      c60 += ahi.z * wlo; c61 += ahi.z * whi;
      c70 += ahi.w * wlo; c71 += ahi.w * whi;
    }
    workgroupBarrier(); // nobody overwrites a tile that others still read
  }

  let row = row0 + 8u * ty;
  let col = col0 + 8u * tx;
  store(place, row, col, c00, c01);
  store(place, row + 1u, col, c10, c11);
  store(place, row + 2u, col, c20, c21);
  store(place, row + 3u, col, c30, c31);
  store(place, row + 4u, col, c40, c41);
  store(place, row + 5u, col, c50, c51);
  store(place, row + 6u, col, c60, c61);
  store(place, row + 7u, col, c70, c71);
}
