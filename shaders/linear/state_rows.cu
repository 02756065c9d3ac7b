// Queries against one state: out[i] = q[i] S / q[i] z, zeros where the row is left out or the denominator is 0. q [b, h, n, r],
// state [b, h, s]: r x e products S, then r sums z; out [b, h, n, e], den [b, h, n] the denominators.
// A block takes 128 rows x 32 columns, a thread 4 x 4 of them; features come in slices of 32.
constexpr u32 ROWS = 128u;
constexpr u32 COLS = 32u;
constexpr u32 SLICE = LINES;

extern "C" __global__ void __launch_bounds__(THREADS) state_rows(
    Params params, const float* __restrict__ q, const float* __restrict__ state, const u8* __restrict__ query_mask,
    float* __restrict__ out, float* __restrict__ den) {
  __shared__ Turned<ROWS> q_tile;
  __align__(16) __shared__ float s_tile[SLICE * COLS];
  __shared__ float z_tile[SLICE];
  const u32 slices = max(divided_up(params.e, COLS), 1u);
  const u32 row_tiles = divided_up(params.n, ROWS);
  const u32 col0 = blockIdx.x % slices * COLS;
  const u32 row0 = blockIdx.x / slices % row_tiles * ROWS;
  const u32 batch = blockIdx.x / slices / row_tiles;
  const float* queries = q + size_t(batch) * params.n * params.r;
  const float* products = state + size_t(batch) * params.s;
  const float* keys = products + size_t(params.r) * params.e;
  const u32 ty = threadIdx.x / 8u;
  const u32 tx = threadIdx.x % 8u;
  float sums[4][4] = {};
  float totals[4] = {};
  for (u32 c0 = 0u; c0 < params.r; c0 += SLICE) {
    load_turned(q_tile, queries, row0, params.n, params.r, c0);
    load_lines<COLS>(s_tile, products, c0, params.e, col0, [&](u32 l) { return l < params.r; });
    if (threadIdx.x < SLICE) {
      const u32 l = c0 + threadIdx.x;
      z_tile[threadIdx.x] = l < params.r ? keys[l] : 0.0f;
    }
    __syncthreads(); // the slices are complete before anyone multiplies
    add_lines(sums, q_tile, s_tile, min(SLICE, params.r - c0), ty, tx, [&](u32 l, const float(&xs)[4]) {
#pragma unroll
      for (u32 a = 0u; a < 4u; a++) { totals[a] += xs[a] * z_tile[l]; }
    });
    __syncthreads(); // nobody overwrites a slice that others still read
  }
#pragma unroll
  for (u32 a = 0u; a < 4u; a++) {
    const u32 i = row0 + 4u * ty + a;
    if (i >= params.n) { break; }
    // Selected: rows that are left out may hold anything.
    bool kept = true;
    if (HAS_QUERY_MASK) {
      const size_t from = size_t(batch / params.h) * params.query_mask_b + size_t(batch % params.h) * params.query_mask_h;
      kept = query_mask[from + i] != 0u;
    }
    const float total = kept ? totals[a] : 0.0f;
    const Divisor divisor = divisor_of(total);
    float* line = out + (size_t(batch) * params.n + i) * params.e;
    const u32 col = col0 + 4u * tx;
#pragma unroll
    for (u32 b = 0u; b < 4u; b++) {
      if (col + b < params.e) { line[col + b] = total == 0.0f ? 0.0f : divided(sums[a][b], divisor); }
    }
    if (HAS_DEN) {
      if (col0 == 0u && tx == 0u) { den[size_t(batch) * params.n + i] = total; }
    }
  }
}
