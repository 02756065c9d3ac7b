// out[chunk] = sum over the chunk's rows i of a_i w_i^T: a [b, h, n, m], w [b, h, n, p], out [b, h, c, m, p]. A block makes a
// tile of TILE_M x TILE_P: each thread holds 8 x 8 sums in registers, which read sixteen words of shared memory for 64
// multiply-adds, and as many threads as are left over take other rows, every SLICES-th; their sums meet in a fixed order at the
// end. Statistics are small and their chunks few, so it is these slices that fill the card.
constexpr u32 ROW_PAIRS = TILE_M / 8u;
constexpr u32 COL_PAIRS = TILE_P / 8u;
constexpr u32 POSITIONS = ROW_PAIRS * COL_PAIRS;
constexpr u32 SLICES = THREADS / POSITIONS;
constexpr u32 STEPS = 8u; // rows that a thread takes between barriers
constexpr u32 DEPTH = STEPS * SLICES;
constexpr u32 FETCHED_A = DEPTH * TILE_M / THREADS;
constexpr u32 FETCHED_W = DEPTH * TILE_P / THREADS;
constexpr u32 QUADS_A = TILE_M / 4u;
constexpr u32 QUADS_W = TILE_P / 4u;
constexpr u32 PARTIAL = SLICES / 2u * POSITIONS * 16u;
constexpr u32 STAGED = DEPTH * (QUADS_A + QUADS_W);

extern "C" __global__ void __launch_bounds__(THREADS) gram(
    Params params, const float* __restrict__ a, const float* __restrict__ w, float* __restrict__ out) {
  // Rows of both operands; afterwards sums of half the slices.
  __shared__ float4 memory[STAGED > PARTIAL ? STAGED : PARTIAL];
  float4* const tile_a = memory;
  float4* const tile_w = memory + DEPTH * QUADS_A;
  float* const words_a = reinterpret_cast<float*>(tile_a);
  float* const words_w = reinterpret_cast<float*>(tile_w);

  const u32 row_tiles = divided_up(params.m, TILE_M);
  const u32 col_tiles = divided_up(params.p, TILE_P);
  const u32 place = blockIdx.x / (row_tiles * col_tiles); // head and chunk
  const u32 row0 = blockIdx.x / col_tiles % row_tiles * TILE_M;
  const u32 col0 = blockIdx.x % col_tiles * TILE_P;
  const size_t head = place / params.c;
  const float* const from_a = a + head * params.n * params.m + row0;
  const float* const from_w = w + head * params.n * params.p + col0;
  const u32 first = place % params.c * params.rows;
  const u32 end = first + min(params.rows, params.n - first);

  const u32 slice = threadIdx.x / POSITIONS;
  const u32 position = threadIdx.x % POSITIONS;
  // Two groups of four rows and of four columns each, half a tile apart: neighbouring threads read neighbouring vectors.
  const u32 ty = position / COL_PAIRS;
  const u32 tx = position % COL_PAIRS;

  float next_a[FETCHED_A];
  float next_w[FETCHED_W];
  const auto fetch = [&](u32 from_row) {
#pragma unroll
    for (u32 i = 0u; i < FETCHED_A; i++) {
      const u32 at = i * THREADS + threadIdx.x;
      const u32 row = from_row + at / TILE_M;
      const u32 col = at % TILE_M;
      next_a[i] = row < end && row0 + col < params.m ? from_a[size_t(row) * params.m + col] : 0.0f;
    }
#pragma unroll
    for (u32 i = 0u; i < FETCHED_W; i++) {
      const u32 at = i * THREADS + threadIdx.x;
      const u32 row = from_row + at / TILE_P;
      const u32 col = at % TILE_P;
      next_w[i] = row < end && col0 + col < params.p ? from_w[size_t(row) * params.p + col] : 0.0f;
    }
  };

  // sums[r][half]: row r of eight, columns of the left or right group.
  float4 sums[8][2] = {};
  fetch(first);
  for (u32 from_row = first; from_row < end; from_row += DEPTH) {
#pragma unroll
    for (u32 i = 0u; i < FETCHED_A; i++) { words_a[i * THREADS + threadIdx.x] = next_a[i]; }
#pragma unroll
    for (u32 i = 0u; i < FETCHED_W; i++) { words_w[i * THREADS + threadIdx.x] = next_w[i]; }
    __syncthreads(); // the rows are there
    fetch(from_row + DEPTH); // arrives while these are multiplied
#pragma unroll 2 // more would take registers from a second block
    for (u32 step = 0u; step < STEPS; step++) {
      const u32 k = step * SLICES + slice;
      const float4 left[2] = {tile_a[k * QUADS_A + ty], tile_a[k * QUADS_A + ty + ROW_PAIRS]};
      const float4 right[2] = {tile_w[k * QUADS_W + tx], tile_w[k * QUADS_W + tx + COL_PAIRS]};
#pragma unroll
      for (u32 half = 0u; half < 2u; half++) {
#pragma unroll
        for (u32 col_half = 0u; col_half < 2u; col_half++) {
          add_scaled(sums[4u * half][col_half], left[half].x, right[col_half]);
          add_scaled(sums[4u * half + 1u][col_half], left[half].y, right[col_half]);
          add_scaled(sums[4u * half + 2u][col_half], left[half].z, right[col_half]);
          add_scaled(sums[4u * half + 3u][col_half], left[half].w, right[col_half]);
        }
      }
    }
    __syncthreads(); // nobody overwrites rows that others still read
  }

#pragma unroll
  for (u32 apart = SLICES / 2u; apart > 0u; apart /= 2u) {
    if (slice >= apart && slice < 2u * apart) {
#pragma unroll
      for (u32 i = 0u; i < 16u; i++) { memory[((slice - apart) * 16u + i) * POSITIONS + position] = sums[i / 2u][i % 2u]; }
    }
    __syncthreads(); // the later half's sums are there
    if (slice < apart) {
#pragma unroll
      for (u32 i = 0u; i < 16u; i++) {
        sums[i / 2u][i % 2u] = sums[i / 2u][i % 2u] + memory[(slice * 16u + i) * POSITIONS + position];
      }
    }
    __syncthreads(); // they have been read
  }

  if (slice == 0u) {
    float* const to = out + size_t(place) * params.m * params.p;
#pragma unroll
    for (u32 i = 0u; i < 16u; i++) {
      const u32 r = i / 2u;
      const u32 row = row0 + r / 4u * (TILE_M / 2u) + 4u * ty + r % 4u;
      const u32 col = col0 + i % 2u * (TILE_P / 2u) + 4u * tx;
      const float line[4] = {sums[r][i % 2u].x, sums[r][i % 2u].y, sums[r][i % 2u].z, sums[r][i % 2u].w};
#pragma unroll
      for (u32 c = 0u; c < 4u; c++) {
        if (row < params.m && col + c < params.p) { to[size_t(row) * params.p + col + c] = line[c]; }
      }
    }
  }
}
