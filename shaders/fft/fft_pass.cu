// One Stockham pass of a transform, y[(i - k) R + k + j p] = DFT_R(x[i + l m] w^(k l)), k = i mod p, for pairs of neighbouring
// lines: x [b, h, o, n, a], y [b, h, o, l, e], twiddles w [t, g] with t = p. With a spectrum s [r, f, 2] it is the last pass of a
// forward transform, a product, and the first pass of the inverse one. A thread makes one butterfly of RADIX numbers for WORDS
// words, two lines together up to radix 8 and one beyond; neighbouring threads have those of neighbouring words. Where WHOLE,
// groups of four words are whole and read as such.

// Blocks that a multiprocessor has to hold. Left to itself, the compiler spills for the sake of one more.
constexpr u32 RESIDENT = 4u;
template <u32 COUNT> struct Lines { typedef float2 type; };
template <> struct Lines<4u> { typedef float4 type; };
constexpr u32 WORDS = RADIX <= 8u ? 4u : 2u;
typedef Lines<WORDS>::type Complex;

// Words from a row of which `left` are left; 0 beyond them.
__device__ inline float4 loaded(const float* from, u32 left, float4) {
  if (WHOLE) { return left > 0u ? *reinterpret_cast<const float4*>(from) : float4(); }
  return make_float4(left > 0u ? from[0] : 0.0f, left > 1u ? from[1] : 0.0f, left > 2u ? from[2] : 0.0f,
                     left > 3u ? from[3] : 0.0f);
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

// Of a row of twiddles, which holds the powers 1, 2, 4 and 8 of w, or 1 to 7 and the multiples of 8.
__device__ inline float2 given_power(const float* row, u32 place) {
  return WHOLE ? reinterpret_cast<const float2*>(row)[place] : make_float2(row[2u * place], row[2u * place + 1u]);
}

// w^j, j above 0.
__device__ inline float2 power_of(const float* row, u32 j) {
  if (RADIX > 16u) {
    if (j < 8u) { return given_power(row, j - 1u); }
    const float2 eights = given_power(row, 6u + j / 8u);
    return j % 8u == 0u ? eights : product(eights, given_power(row, j % 8u - 1u));
  }
  float2 power = make_float2(1.0f, 0.0f);
  bool any = false;
#pragma unroll
  for (u32 bit = 0u; bit < 4u; bit++) {
    if ((j >> bit & 1u) != 0u) {
      power = any ? product(given_power(row, bit), power) : given_power(row, bit);
      any = true;
    }
  }
  return power;
}

// A transforms of B numbers, from(a + A b) for column a, which leaves what it made, with factors, at place(a + A b).
template <u32 A, u32 B, typename From, typename Place>
__device__ inline void columns(Complex (&waiting)[A * B][THREADS], From from, Place place) {
#pragma unroll
  for (u32 a = 0u; a < A; a++) {
    Complex column[B];
#pragma unroll
    for (u32 b = 0u; b < B; b++) { column[b] = from(a + A * b); }
    dft(column);
#pragma unroll
    for (u32 b = 0u; b < B; b++) { waiting[place(a + A * b)][threadIdx.x] = rotated(column[b], a * b * (64u / (A * B))); }
  }
}

// B transforms of A numbers, of which row b takes one of every column and gives to(b + B a).
template <u32 A, u32 B, typename To, typename Place>
__device__ inline void rows(Complex (&waiting)[A * B][THREADS], To to, Place place) {
#pragma unroll 1
  for (u32 b = 0u; b < B; b++) {
    Complex row[A];
#pragma unroll
    for (u32 a = 0u; a < A; a++) { row[a] = waiting[place(a + A * b)][threadIdx.x]; }
    dft(row);
#pragma unroll
    for (u32 a = 0u; a < A; a++) { to(b + B * a, row[a]); }
  }
}

// A transform of R numbers input(j), and with a filter another one of filter(j, number j), to output(j, number j).
template <u32 R, typename Input, typename Filter, typename Output>
__device__ inline void transform(Input input, Filter filter, Output output) {
  if constexpr (R <= 16u) {
    Complex z[R];
#pragma unroll
    for (u32 j = 0u; j < R; j++) { z[j] = input(j); }
    dft(z);
    if (HAS_S) {
#pragma unroll
      for (u32 j = 0u; j < R; j++) { z[j] = filter(j, z[j]); }
      dft(z);
    }
#pragma unroll
    for (u32 j = 0u; j < R; j++) { output(j, z[j]); }
  } else {
    // More numbers than a thread has registers for wait in a column of shared memory, which no other thread looks at.
    constexpr u32 A = R / 8u;
    constexpr u32 B = 8u;
    __shared__ Complex waiting[R][THREADS];
    const auto own = [](u32 j) { return j; };
    columns<A, B>(waiting, input, own);
    if (HAS_S) {
      // A row leaves its results, numbers b + B a of the input of the second transform, where it found what it was made from.
      const auto found = [](u32 j) { return j / B + A * (j % B); };
      rows<A, B>(waiting, [&](u32 j, Complex z) { waiting[found(j)][threadIdx.x] = filter(j, z); }, own);
      columns<A, B>(waiting, [&](u32 j) { return waiting[found(j)][threadIdx.x]; }, found);
      rows<A, B>(waiting, output, found);
    } else {
      rows<A, B>(waiting, output, own);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) fft_pass(
    Params params, const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ s, float* __restrict__ y) {
  // Rows are groups of four words.
  const u32 parts = divided_up(min(params.a, params.e), 4u) * (4u / WORDS);
  // Butterflies of a line: the last pass has a row of twiddles for each, and those before it have all outputs.
  const u32 m = max(params.t, divided_up(params.l, RADIX));
  const size_t size = size_t(params.o) * m * parts;
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 head = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= size) { return; }
  const u32 q = WORDS * u32(item % parts);
  const size_t butterfly = item / parts;
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

  const u32 x_column = params.x_from + q;
  const u32 x_left = params.a - min(params.a, x_column);
  const float* from = x + head * x_rows * params.a
    + word_at(x_rows, size_t(line) * params.n + i, params.a, params.x_block, X_BLOCKED, x_column);
  const float* row = w + size_t(k) * params.g;
  const u32 places = HAS_S ? params.a / params.channels : 1u;
  const size_t frequency = HAS_S ? (size_t(line) * RADIX * m + i) * places + q / params.channels : size_t(0);
  const float* factors = HAS_S ? s + 2u * (size_t(head / params.per % params.r) * params.f + frequency) : nullptr;
  const u32 y_column = params.y_from + q;
  const u32 y_left = params.e - min(params.e, y_column);
  float* to = y + head * y_rows * params.e
    + word_at(y_rows, size_t(line) * params.l + number, params.e, params.y_block, Y_BLOCKED, y_column);

  transform<RADIX>(
    [&](u32 j) {
      Complex z = Complex();
      if (size_t(i) + size_t(j) * m < params.n) { z = loaded(from + j * x_step, x_left, Complex()); }
      if (INVERSE != 0u) { z = swapped(z); }
      return j > 0u && params.t > 1u ? times(z, power_of(row, j)) : z;
    },
    [&](u32 j, Complex z) {
      const float* factor = factors + 2u * size_t(j) * m * places;
      return swapped(times(z, make_float2(factor[0], factor[1])));
    },
    [&](u32 j, Complex z) {
      Complex scaled = params.scale * z;
      if (INVERSE != 0u || HAS_S) { scaled = swapped(scaled); }
      if (size_t(number) + size_t(j) * apart < params.l) { store(to + j * y_step, y_left, scaled); }
    });
}
