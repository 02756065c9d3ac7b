// The kernel matrix of tokens and landmarks: out[i, l] = e^(-D(x[i], y[l]) / lambda), D the L1 or the squared L2 distance
// (METRIC), or D itself (OUTPUT). Masked rows and columns are 0; SQUARE adds to the diagonal, where a masked landmark keeps 1. x
// [b, h, n, d], y [b, h, m, d], lambda [h], x_keep bytes [b, h, n], y_keep words [b, h, m], out [b, h, n, m].
//
// A block makes ROWS x COLS: lanes of 8 side by side, each thread ROWS / ROW_LANES rows x COLS / 8 columns. A thread's columns
// lie 8 apart, so that neighbours store whole sectors of 32 bytes whatever the row's length; it reads them word by word, 10 reads
// for 64 pairs.
constexpr u32 COL_LANES = 8u;
constexpr u32 ROW_LANES = THREADS / COL_LANES;
constexpr u32 R = ROWS / ROW_LANES;
constexpr u32 C = COLS / COL_LANES;
// Blocks that a multiprocessor has to hold. Left to itself, the compiler spills for the sake of one more.
constexpr u32 RESIDENT = 3u;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) kernel_matrix(
    Params params, const float* __restrict__ x, const float* __restrict__ y, const float* __restrict__ lambda,
    const u8* __restrict__ x_keep, const u32* __restrict__ y_keep, float* __restrict__ out) {
  __shared__ float4 rows[SLICE * ROWS / 4u];
  __shared__ float4 cols[SLICE * (COLS + 1u) / 4u];
  const u32 col_tiles = divided_up(params.m, COLS);
  const u32 row_tiles = divided_up(params.n, ROWS);
  const u32 head = blockIdx.x / col_tiles / row_tiles;
  const u32 row0 = blockIdx.x / col_tiles % row_tiles * ROWS;
  const u32 col0 = blockIdx.x % col_tiles * COLS;
  const u32 b = head / params.h;
  const u32 h = head % params.h;
  const u32 n = params.n;
  const u32 m = params.m;
  const u32 d = params.d;
  const float* const x_head = x + size_t(head) * n * d;
  const float* const y_head = y + size_t(head) * m * d;
  const u32 ty = threadIdx.x / COL_LANES;
  const u32 tx = threadIdx.x % COL_LANES;

  float sums[R][C] = {};
  for (u32 c0 = 0u; c0 < d; c0 += SLICE) {
    const u32 depth = slice_depth(d, c0);
    load_slice<ROWS, FOURS>(rows, x_head, row0, n, d, c0, depth);
    load_slice<COLS, FOURS, true>(cols, y_head, col0, m, d, c0, depth);
    __syncthreads(); // both slices are complete before anyone reads them
    const float* const words = reinterpret_cast<const float*>(cols);
    for (u32 quad = 0u; quad < depth / 4u; quad++) {
#pragma unroll
      for (u32 i = 0u; i < 4u; i++) {
        const u32 c = 4u * quad + i;
        float row[R];
        float col[C];
        read_fours<R, ROW_LANES>(row, rows + c * (ROWS / 4u), ty, quad % 8u);
#pragma unroll
        for (u32 j = 0u; j < C; j++) { col[j] = words[slice_at<COLS, true>(c, tx + COL_LANES * j)]; }
#pragma unroll
        for (u32 a = 0u; a < R; a++) {
#pragma unroll
          for (u32 j = 0u; j < C; j++) { sums[a][j] = with_pair<METRIC>(sums[a][j], row[a], col[j]); }
        }
      }
    }
    __syncthreads(); // nobody overwrites a slice that others still read
  }

  const Divisor bandwidth = divisor_of(lambda[h]);
  const u8* x_flags = x_keep;
  if (HAS_X_KEEP) { x_flags += size_t(b) * params.x_keep_b + size_t(h) * params.x_keep_h; }
  const u32* y_flags = y_keep;
  if (HAS_Y_KEEP) { y_flags += size_t(b) * params.y_keep_b + size_t(h) * params.y_keep_h; }
#pragma unroll
  for (u32 a = 0u; a < R; a++) {
    const u32 row = row0 + entry_of<ROW_LANES>(ty, a);
    if (row >= n) { continue; }
    bool row_kept = !HAS_X_KEEP || x_flags[row] != 0u;
    if (HAS_Y_KEEP && SQUARE != 0u) { row_kept = row_kept && y_flags[row] != 0u; }
    float* const line = out + (size_t(head) * n + row) * m;
#pragma unroll
    for (u32 j = 0u; j < C; j++) {
      const u32 col = col0 + tx + COL_LANES * j;
      if (col >= m) { continue; }
      const bool kept = row_kept && (!HAS_Y_KEEP || y_flags[col] != 0u);
      float value = OUTPUT == 1u ? sums[a][j] : exp_accurate(-divided(sums[a][j], bandwidth));
      if (!kept) { value = 0.0f; }
      if (SQUARE != 0u && row == col) { value = (kept ? value : 1.0f) + params.diagonal; }
      line[col] = value;
    }
  }
}
