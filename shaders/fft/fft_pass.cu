// One Stockham pass of a transform, y[(i - k) R + k + j p] = DFT_R(x[i + l m] w^(k l)), k = i mod p, for pairs of neighbouring lines:
// x [b, h, o, n, a], y [b, h, o, l, e], twiddles w [t, g] with t = p. With a spectrum s [r, f, 2] it is the last pass of a forward
// transform, a product, and the first pass of the inverse one. A thread makes one butterfly of RADIX numbers for a group of four words,
// neighbouring threads those of neighbouring words. Where WHOLE, groups are whole and read as such.
//
// Two lines together fill the registers up to radix 16; beyond, they take turns.
template <bool TOGETHER> struct Line { typedef float4 type; };
template <> struct Line<false> { typedef float2 type; };
constexpr bool TOGETHER = RADIX <= 16u;
typedef Line<TOGETHER>::type Complex;
constexpr u32 WORDS = TOGETHER ? 4u : 2u;

// Words from a row of which `left` are left; 0 beyond them.
__device__ inline float4 loaded(const float* from, u32 left, float4) {
  if (WHOLE) { return left > 0u ? *reinterpret_cast<const float4*>(from) : float4(); }
  return make_float4(left > 0u ? from[0] : 0.0f, left > 1u ? from[1] : 0.0f, left > 2u ? from[2] : 0.0f, left > 3u ? from[3] : 0.0f);
}

__device__ inline float2 loaded(const float* from, u32 left, float2) {
  if (WHOLE) { return left > 0u ? *reinterpret_cast<const float2*>(from) : float2(); }
  return make_float2(left > 0u ? from[0] : 0.0f, left > 1u ? from[1] : 0.0f);
}

__device__ inline void store(float* to, u32 left, float4 z) {
  if (WHOLE) {
    if (left > 0u) { *reinterpret_cast<float4*>(to) = z; }
    return;
  }
  if (left > 0u) { to[0] = z.x; }
  if (left > 1u) { to[1] = z.y; }
  if (left > 2u) { to[2] = z.z; }
  if (left > 3u) { to[3] = z.w; }
}

__device__ inline void store(float* to, u32 left, float2 z) {
  if (WHOLE) {
    if (left > 0u) { *reinterpret_cast<float2*>(to) = z; }
    return;
  }
  if (left > 0u) { to[0] = z.x; }
  if (left > 1u) { to[1] = z.y; }
}

// Word `q` of row `row` of a head of `rows` rows of `width` words, or of blocks of `block` words that hold all rows.
__device__ inline size_t word_at(size_t rows, size_t row, u32 width, u32 block, bool blocked, u32 q) {
  return blocked ? (q / block * rows + row) * block + q % block : row * width + q;
}

// Every number times its power of w, of which a row of twiddles holds some: 1, 2, 4 and 8, or 1 to 7 and the multiples of 8.
__device__ inline void twiddle(Complex (&z)[RADIX], const float* row) {
  const auto given = [row](u32 place) {
    return WHOLE ? reinterpret_cast<const float2*>(row)[place] : make_float2(row[2u * place], row[2u * place + 1u]);
  };
  float2 powers[RADIX];
#pragma unroll
  for (u32 j = 1u; j < RADIX; j++) {
    const u32 top = RADIX > 16u ? (j < 8u ? j : j & ~7u) : j < 2u ? 1u : j < 4u ? 2u : j < 8u ? 4u : 8u;
    const u32 place = RADIX > 16u ? (j < 8u ? j - 1u : 6u + j / 8u) : j < 2u ? 0u : j < 4u ? 1u : j < 8u ? 2u : 3u;
    powers[j] = top == j ? given(place) : product(powers[top], powers[j - top]);
    z[j] = times(z[j], powers[j]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) fft_pass(
    Params params, const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ s, float* __restrict__ y) {
  const u32 quads = divided_up(min(params.a, params.e), 4u);
  // Butterflies of a line: the last pass has a row of twiddles for each, and those before it have all outputs.
  const u32 m = max(params.t, divided_up(params.l, RADIX));
  const size_t size = size_t(params.o) * m * quads;
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 head = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= size) { return; }
  const u32 quad = u32(item % quads);
  const size_t butterfly = item / quads;
  const u32 i = u32(butterfly % m);
  const u32 line = u32(butterfly / m);
  const u32 k = i % params.t;
  const size_t x_rows = size_t(params.o) * params.n;
  const size_t y_rows = size_t(params.o) * params.l;
  constexpr bool X_BLOCKED = (BLOCKED & 1u) != 0u;
  constexpr bool Y_BLOCKED = (BLOCKED & 2u) != 0u;
  const size_t x_step = size_t(m) * (X_BLOCKED ? params.x_block : params.a);
  // With a spectrum the outputs are those of the inverse transform's first pass.
  const u32 number = HAS_S ? i * RADIX : (i - k) * RADIX + k;
  const u32 apart = HAS_S ? 1u : params.t;
  const size_t y_step = size_t(apart) * (Y_BLOCKED ? params.y_block : params.e);

  for (u32 q = 4u * quad; q < 4u * quad + 4u; q += WORDS) {
    const u32 x_column = params.x_from + q;
    const u32 x_left = params.a - min(params.a, x_column);
    const float* from = x + head * x_rows * params.a
      + word_at(x_rows, size_t(line) * params.n + i, params.a, params.x_block, X_BLOCKED, x_column);
    Complex z[RADIX];
#pragma unroll
    for (u32 j = 0u; j < RADIX; j++) {
      z[j] = Complex();
      if (size_t(i) + size_t(j) * m < params.n) { z[j] = loaded(from + j * x_step, x_left, Complex()); }
      if (INVERSE != 0u) { z[j] = swapped(z[j]); }
    }
    if (params.t > 1u) { twiddle(z, w + size_t(k) * params.g); }
    dft(z);
    if (HAS_S) {
      const u32 places = params.a / params.channels;
      const size_t frequency = (size_t(line) * RADIX * m + i) * places + q / params.channels;
      const float* factors = s + 2u * (size_t(head / params.per % params.r) * params.f + frequency);
      const size_t step = 2u * size_t(m) * places;
#pragma unroll
      for (u32 j = 0u; j < RADIX; j++) {
        z[j] = swapped(times(z[j], make_float2(factors[j * step], factors[j * step + 1u])));
      }
      dft(z);
    }
    const u32 y_column = params.y_from + q;
    const u32 y_left = params.e - min(params.e, y_column);
    float* to = y + head * y_rows * params.e
      + word_at(y_rows, size_t(line) * params.l + number, params.e, params.y_block, Y_BLOCKED, y_column);
#pragma unroll
    for (u32 j = 0u; j < RADIX; j++) {
      Complex scaled = params.scale * z[j];
      if (INVERSE != 0u || HAS_S) { scaled = swapped(scaled); }
      if (size_t(number) + size_t(j) * apart < params.l) { store(to + j * y_step, y_left, scaled); }
    }
  }
}
