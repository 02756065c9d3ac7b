// Whole transforms in shared memory: TILE pairs of lines of LENGTH numbers per block, four numbers of a pair to a thread, in
// Stockham's order with radix 4 (and 2 first where LENGTH wants it). x [b, h, o, n, a], y [b, h, o, l, e], roots [t, 2]. Inputs
// come from memory and outputs go there once; between the passes the numbers change hands. With a spectrum s [r, f, 2]: forward,
// a product, and back.
constexpr u32 QUARTER = LENGTH / 4u;

// Where a number lies: those that eight neighbouring threads store or load at once meet in no bank, whatever the pass.
__device__ inline u32 slot(u32 cell) {
  const u32 high = (cell >> 3) & 3u;
  return cell ^ high ^ (high << 1);
}

__device__ inline float2 root(const float* roots, u32 k) { return make_float2(roots[2u * k], roots[2u * k + 1u]); }

// Word `q` of row `row` of a head of `rows` rows of `width` words, or of blocks of `block` words that hold all rows.
__device__ inline size_t word_at(size_t rows, size_t row, u32 width, u32 block, bool blocked, u32 q) {
  return blocked ? (q / block * rows + row) * block + q % block : row * width + q;
}

// Gives away four numbers, `at` of their line, and takes those that are a quarter apart from `i` on.
__device__ inline void exchange(float4 (&z)[4], const u32 (&at)[4], u32 i, u32 column) {
  __shared__ float4 cells[4u * THREADS];
#pragma unroll
  for (u32 j = 0u; j < 4u; j++) { cells[slot(at[j] * TILE + column)] = z[j]; }
  __syncthreads(); // all numbers of the pass are there
#pragma unroll
  for (u32 j = 0u; j < 4u; j++) { z[j] = cells[slot((i + j * QUARTER) * TILE + column)]; }
  __syncthreads(); // and have been read
}

// From numbers a quarter apart to four outputs, `at` of their line.
__device__ inline void transform(float4 (&z)[4], u32 (&at)[4], const float* roots, u32 i, u32 column) {
  if (ODD) {
    const float4 a = z[0], b = z[1];
    z[0] = a + z[2];
    z[1] = a - z[2];
    const float4 c = b + z[3];
    z[3] = b - z[3];
    z[2] = c;
#pragma unroll
    for (u32 j = 0u; j < 4u; j++) { at[j] = 2u * (i + j / 2u * QUARTER) + j % 2u; }
  }
#pragma unroll
  for (u32 p = ODD ? 2u : 1u; p < LENGTH; p *= 4u) {
    if (p > 1u) { exchange(z, at, i, column); }
    const u32 k = i & (p - 1u);
    if (p > 1u) {
      const u32 turn = k * (QUARTER / p);
#pragma unroll
      for (u32 j = 1u; j < 4u; j++) { z[j] = times(z[j], root(roots, j * turn)); }
    }
    dft(z);
#pragma unroll
    for (u32 j = 0u; j < 4u; j++) { at[j] = (i - k) * 4u + k + j * p; }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) fft_line(
    Params params, const float* __restrict__ x, const float* __restrict__ roots, const float* __restrict__ s,
    float* __restrict__ y) {
  const u32 quads = min(params.a, params.e) / 4u;
  const size_t items = size_t(params.o) * quads;
  const u32 blocks_per_head = u32((items + TILE - 1u) / TILE);
  const u32 head = blockIdx.x / blocks_per_head;
  const u32 column = threadIdx.x % TILE;
  const u32 i = threadIdx.x / TILE;
  // Pairs past the end repeat the last one and are not stored, because all threads have to reach the barriers.
  const size_t wanted = size_t(blockIdx.x % blocks_per_head) * TILE + column;
  const bool is_wanted = wanted < items;
  const size_t item = is_wanted ? wanted : items - 1u;
  const size_t line = item / quads;
  const u32 q = 4u * u32(item % quads);
  constexpr bool X_BLOCKED = (BLOCKED & 1u) != 0u;
  constexpr bool Y_BLOCKED = (BLOCKED & 2u) != 0u;

  const size_t x_rows = size_t(params.o) * params.n;
  const float* from = x + head * x_rows * params.a
    + word_at(x_rows, line * params.n, params.a, params.x_block, X_BLOCKED, params.x_from + q);
  const u32 x_apart = X_BLOCKED ? params.x_block : params.a;
  float4 z[4];
  u32 at[4] = {};
#pragma unroll
  for (u32 j = 0u; j < 4u; j++) {
    const u32 number = i + j * QUARTER;
    z[j] = float4();
    if (number < params.n) { z[j] = *reinterpret_cast<const float4*>(from + size_t(number) * x_apart); }
    if (INVERSE != 0u) { z[j] = swapped(z[j]); }
  }
  transform(z, at, roots, i, column);
  if (HAS_S) {
    const u32 places = params.a / params.channels;
    const size_t frequency = line * LENGTH * places + q / params.channels;
    const float* factors = s + 2u * (size_t(head / params.per % params.r) * params.f + frequency);
#pragma unroll
    for (u32 j = 0u; j < 4u; j++) {
      const float* factor = factors + 2u * size_t(at[j]) * places;
      z[j] = swapped(times(z[j], make_float2(factor[0], factor[1])));
    }
    exchange(z, at, i, column);
    transform(z, at, roots, i, column);
  }
  const size_t y_rows = size_t(params.o) * params.l;
  float* to = y + head * y_rows * params.e
    + word_at(y_rows, line * params.l, params.e, params.y_block, Y_BLOCKED, params.y_from + q);
  const u32 y_apart = Y_BLOCKED ? params.y_block : params.e;
#pragma unroll
  for (u32 j = 0u; j < 4u; j++) {
    float4 scaled = params.scale * z[j];
    if (INVERSE != 0u || HAS_S) { scaled = swapped(scaled); }
    if (is_wanted && at[j] < params.l) { *reinterpret_cast<float4*>(to + size_t(at[j]) * y_apart) = scaled; }
  }
}
