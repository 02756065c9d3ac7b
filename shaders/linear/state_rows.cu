// Queries against one state: out[i] = q[i] S / q[i] z, zeros where the row is left out or the denominator is 0. q [b, h, n, r],
// state [b, h, s]: r x e products S, then r sums z; out [b, h, n, e], den [b, h, n] the denominators.
// A block takes 128 rows x 32 columns, a thread 4 x 4 of them; features come in slices of 32.
constexpr u32 ROWS = 128u;
constexpr u32 COLS = 32u;
constexpr u32 SLICE = 32u;
constexpr u32 Q_LINE = ROWS + 4u;

extern "C" __global__ void __launch_bounds__(THREADS) state_rows(
    Params params, const float* __restrict__ q, const float* __restrict__ state, const u8* __restrict__ query_mask,
    float* __restrict__ out, float* __restrict__ den) {
  __align__(16) __shared__ float q_tile[SLICE * Q_LINE]; // [feature, row]
  __shared__ float4 s_tile[SLICE][COLS / 4u];
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
#pragma unroll 2
    for (u32 t = threadIdx.x; t < ROWS * SLICE / 4u; t += THREADS) {
      const u32 i = row0 + turned_row(t);
      const u32 four = 4u * turned_four(t);
      put_turned(
          &q_tile[four * Q_LINE + turned_row(t)], Q_LINE,
          four_of(queries + size_t(i) * params.r, c0 + four, params.r, i < params.n));
    }
#pragma unroll 2
    for (u32 t = threadIdx.x; t < SLICE * COLS / 4u; t += THREADS) {
      const u32 l = c0 + t / (COLS / 4u);
      const u32 col = col0 + 4u * (t % (COLS / 4u));
      s_tile[t / (COLS / 4u)][t % (COLS / 4u)] = four_of(products + size_t(l) * params.e, col, params.e, l < params.r);
    }
    if (threadIdx.x < SLICE) {
      const u32 l = c0 + threadIdx.x;
      z_tile[threadIdx.x] = l < params.r ? keys[l] : 0.0f;
    }
    __syncthreads(); // the slices are complete before anyone multiplies
    const u32 depth = min(SLICE, params.r - c0);
#pragma unroll 4
    for (u32 c = 0u; c < depth; c++) {
      const float z = z_tile[c];
      const float4 y = s_tile[c][tx];
      float xs[4];
      read_run(xs, &q_tile[c * Q_LINE + 4u * ty]);
#pragma unroll
      for (u32 a = 0u; a < 4u; a++) {
        totals[a] += xs[a] * z;
        sums[a][0] += xs[a] * y.x;
        sums[a][1] += xs[a] * y.y;
        sums[a][2] += xs[a] * y.z;
        sums[a][3] += xs[a] * y.w;
      }
    }
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
