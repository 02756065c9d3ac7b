// The scaled Newton-Schulz iteration of one small matrix in one block: a, x [b, h, m, m], symmetric; residual [b, h, 1]: the
// Frobenius norm of I - A X, if asked for; bound [b, h, 2]: u, the largest sum of magnitudes of a row, and the steps taken. X <-
// c (2 X - X (A X)) with c from u and epsilon.
//
// X is whole in shared memory, in rows of SIDE words, zero beyond M; beside it A where it fits (A_SHARED; otherwise it comes
// through the nearest cache) and PANEL rows of Y = A X at a time. The next X is in registers, a 4 x 4 tile per thread.
//
// X is symmetric in exact arithmetic, yet half of it is not enough: its rounding errors are large on one side only, and made
// symmetric they meet in the next step's product and grow (at condition 1.6e3 the residual rises from 3e-4 to 1.6e-2, at 5e4 the
// iteration diverges).
constexpr u32 QUADS = SIDE / 4u; // groups of four rows, or of four columns
constexpr u32 TILES = QUADS * QUADS;
constexpr u32 WARPS = THREADS / WARP;
static_assert(TILES <= THREADS, "every tile of X has a thread");

struct Tile { float4 rows[4]; };

// A tile of A X. A is symmetric, so that its row k has what stands in column k.
__device__ inline Tile tile_of_ax(
    const float* __restrict__ a, const float4* whole_a, const float4* whole_x, u32 row_quad, u32 quad) {
  Tile y = {};
#pragma unroll(A_SHARED ? 4 : 4)
  for (u32 k = 0u; k < M; k++) {
    float4 column;
    if (A_SHARED) {
      column = whole_a[k * QUADS + row_quad];
    } else {
      const float* const line = a + k * M;
      const u32 i = 4u * row_quad;
      column = make_float4(
          line[i], i + 1u < M ? line[i + 1u] : 0.0f, i + 2u < M ? line[i + 2u] : 0.0f, i + 3u < M ? line[i + 3u] : 0.0f);
    }
    const float4 line = whole_x[k * QUADS + quad];
    add_scaled(y.rows[0], column.x, line);
    add_scaled(y.rows[1], column.y, line);
    add_scaled(y.rows[2], column.z, line);
    add_scaled(y.rows[3], column.w, line);
  }
  return y;
}

// The bound delta of |I - A X| and its gap 1 - delta: far from convergence the gap is the small number, near it delta is.
struct Bound {
  float delta, gap;

  // One step on; returns its factor c.
  __device__ inline float step() {
    const float wide = 1.0f + gap * (1.0f + delta);
    gap = 2.0f * gap * (1.0f + delta) / wide;
    delta = gap < 0.5f ? 1.0f - gap : delta * delta / wide;
    return 2.0f / wide;
  }
};

extern "C" __global__ void __launch_bounds__(THREADS) newton_schulz_workgroup(
    Params params, const float* __restrict__ a, float* __restrict__ x, float* __restrict__ residual, float* __restrict__ bound) {
  __shared__ float4 whole_x[SIDE * QUADS];
  __shared__ float4 panel[PANEL * QUADS];
  __shared__ float4 whole_a[A_SHARED ? SIDE * QUADS : 1u];
  float* const words_of_x = reinterpret_cast<float*>(whole_x);
  const float* const matrix = a + size_t(blockIdx.x) * M * M;

  if (A_SHARED) {
    for (u32 at = threadIdx.x; at < SIDE * SIDE; at += THREADS) {
      const u32 i = at / SIDE;
      const u32 j = at % SIDE;
      reinterpret_cast<float*>(whole_a)[at] = i < M && j < M ? matrix[i * M + j] : 0.0f;
    }
  }
  float largest = 0.0f;
  for (u32 i = threadIdx.x / WARP; i < M; i += WARPS) {
    float sum = 0.0f;
    for (u32 k = threadIdx.x % WARP; k < M; k += WARP) { sum += fabsf(matrix[i * M + k]); }
    largest = fmaxf(largest, warp_sum(sum));
  }
  const float u = block_max<THREADS>(largest);

  const float l = params.epsilon;
  const bool own_bound = params.upper == 0.0f;
  const float gap = 2.0f * l / (fmaxf(own_bound ? u : params.upper, l) + l);
  const Bound begin = {1.0f - gap, gap};
  u32 steps = params.most_steps;
  if (own_bound) {
    // One step more than the bound asks for: at the bound alone up to `tolerance` is left in X.
    u32 needed = 1u;
    for (Bound now = begin; needed < params.most_steps && now.delta > params.tolerance; needed++) { now.step(); }
    steps = min(needed, params.most_steps);
  }
  for (u32 at = threadIdx.x; at < SIDE * SIDE; at += THREADS) {
    words_of_x[at] = at / SIDE == at % SIDE && at / SIDE < M ? 2.0f / (u + l) : 0.0f;
  }

  const bool busy = threadIdx.x < TILES;
  const u32 row_quad = threadIdx.x / QUADS;
  const u32 quad = threadIdx.x % QUADS;
  Bound now = begin;
  for (u32 step = 0u; step < steps; step++) {
    Tile product = {};
    for (u32 from_quad = 0u; from_quad < QUADS; from_quad += PANEL / 4u) {
      const u32 lines = min(PANEL / 4u, QUADS - from_quad); // in groups of four
      __syncthreads(); // X, and at first A, are complete, and the last panel has been read
      if (row_quad < lines) {
        const Tile y = tile_of_ax(matrix, whole_a, whole_x, from_quad + row_quad, quad);
#pragma unroll
        for (u32 r = 0u; r < 4u; r++) { panel[(4u * row_quad + r) * QUADS + quad] = y.rows[r]; }
      }
      __syncthreads(); // the panel is complete
      if (busy) {
#pragma unroll(A_SHARED ? 2 : 1)
        for (u32 k = 0u; k < lines; k++) {
          float4 y[4];
#pragma unroll
          for (u32 c = 0u; c < 4u; c++) { y[c] = panel[(4u * k + c) * QUADS + quad]; }
#pragma unroll
          for (u32 r = 0u; r < 4u; r++) {
            const float4 factors = whole_x[(4u * row_quad + r) * QUADS + from_quad + k];
            add_scaled(product.rows[r], factors.x, y[0]);
            add_scaled(product.rows[r], factors.y, y[1]);
            add_scaled(product.rows[r], factors.z, y[2]);
            add_scaled(product.rows[r], factors.w, y[3]);
          }
        }
      }
    }
    __syncthreads(); // nobody reads X any more
    const float factor = now.step();
    if (busy) {
#pragma unroll
      for (u32 r = 0u; r < 4u; r++) {
        float4& line = whole_x[(4u * row_quad + r) * QUADS + quad];
        line = factor * (2.0f * line - product.rows[r]);
      }
    }
  }
  __syncthreads(); // X, and A where there was no step, are complete
  for (u32 at = threadIdx.x; at < M * M; at += THREADS) {
    x[size_t(blockIdx.x) * M * M + at] = words_of_x[at / M * SIDE + at % M];
  }
  if (HAS_RESIDUAL) {
    float sum = 0.0f;
    if (busy) {
      const Tile y = tile_of_ax(matrix, whole_a, whole_x, row_quad, quad);
#pragma unroll
      for (u32 r = 0u; r < 4u; r++) {
        const u32 row = 4u * row_quad + r;
        const float line[4] = {y.rows[r].x, y.rows[r].y, y.rows[r].z, y.rows[r].w};
#pragma unroll
        for (u32 c = 0u; c < 4u; c++) {
          const u32 col = 4u * quad + c;
          const float miss = line[c] - (row == col ? 1.0f : 0.0f);
          if (row < M && col < M) { sum += miss * miss; }
        }
      }
    }
    const float all = block_sum<THREADS>(sum);
    if (threadIdx.x == 0u) { residual[blockIdx.x] = sqrtf(all); }
  }
  if (threadIdx.x == 0u) {
    bound[2u * size_t(blockIdx.x)] = u;
    bound[2u * size_t(blockIdx.x) + 1u] = float(steps);
  }
}
