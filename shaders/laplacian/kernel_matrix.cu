// The kernel matrix of tokens and landmarks: out[i, l] = e^(-D(x[i], y[l]) / lambda), D the L1 or the squared L2 distance
// (METRIC), or D itself (OUTPUT). Masked rows and columns are 0; SQUARE adds to the diagonal, where a masked landmark keeps 1. x
// [b, h, n, d], y [b, h, m, d], lambda [h], x_keep bytes [b, h, n], y_keep words [b, h, m], out [b, h, n, m].
//
// A block makes ROWS x COLS: lanes of 8 side by side, each thread ROWS / ROW_LANES rows x COLS / 8 columns. A thread's columns
// lie 8 apart, so that neighbours store whole sectors of 32 bytes whatever the row's length. Slices have 16 coordinates, because
// two stages of them take as much shared memory as one of 32, and leave as many blocks resident; of 32 coordinates half are then
// copied while others are used.
constexpr u32 COL_LANES = 8u;
constexpr u32 ROW_LANES = THREADS / COL_LANES;
constexpr u32 R = ROWS / ROW_LANES;
constexpr u32 C = COLS / COL_LANES;
constexpr u32 DEPTH = 16u;
// Blocks that a multiprocessor has to hold. Left to itself, the compiler spills for the sake of one more.
constexpr u32 RESIDENT = 3u;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) kernel_matrix(
    Params params, const float* __restrict__ x, const float* __restrict__ y, const float* __restrict__ lambda,
    const u8* __restrict__ x_keep, const u32* __restrict__ y_keep, float* __restrict__ out) {
  __shared__ float4 rows[STAGES][DEPTH * ROWS / 4u];
  __shared__ float4 cols[STAGES][DEPTH * COLS / 4u];
  const Block block = block_of<ROWS>(params.n, divided_up(params.m, COLS), params.h);
  const u32 head = block.head;
  const u32 b = block.b;
  const u32 h = block.h;
  const u32 row0 = block.row0;
  const u32 col0 = block.part * COLS;
  const u32 n = params.n;
  const u32 m = params.m;
  const u32 d = params.d;
  const u32 ty = threadIdx.x / COL_LANES;
  const u32 tx = threadIdx.x % COL_LANES;

  float sums[R][C] = {};
  const auto fill = [&](u32 stage, u32 from) {
    copy_slice<ROWS, DEPTH>(rows[stage], x + size_t(head) * n * d, row0, n, d, from);
    copy_slice<COLS, DEPTH, true>(cols[stage], y + size_t(head) * m * d, col0, m, d, from);
  };
  Stages stages;
  if (d > 0u) { stages.begin([&](u32 stage) { fill(stage, 0u); }); }
  for (u32 from = 0u; from < d; from += DEPTH) {
    const auto fill_next = [&](u32 stage) {
      if (d - from > DEPTH) { fill(stage, from + DEPTH); }
    };
    stages.step(fill_next, [&](u32 stage) {
      const u32 depth = slice_depth<DEPTH>(d, from);
      add_pairs<METRIC, ROW_LANES, COL_LANES, DEPTH, true>(sums, rows[stage], cols[stage], depth, ty, tx);
    });
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
