// Rows of a tensor on their way to registers, a float4 at a time. FOURS says that rows are whole ones.

// Four numbers of the row at `line` from `col` on, zeros past its `width` or where it is not `there`.
__device__ inline float4 four_of(const float* line, u32 col, u32 width, bool there) {
  float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (!there || col >= width) { return x; }
  if (FOURS) { return *reinterpret_cast<const float4*>(line + col); }
  x.x = line[col];
  if (col + 1u < width) { x.y = line[col + 1u]; }
  if (col + 2u < width) { x.z = line[col + 2u]; }
  if (col + 3u < width) { x.w = line[col + 3u]; }
  return x;
}

// A tile of ROWS rows and 32 features, whose lines are features: rows lie side by side, as threads want them. Lines are 4 numbers
// longer than a multiple of 32, which with `turned_row` takes a warp's 32 numbers to 32 banks.
constexpr u32 LINES = 32u;

template <u32 ROWS> struct __align__(16) Turned {
  static constexpr u32 LINE = ROWS + 4u;
  float numbers[LINES * LINE];

  __device__ inline float* at(u32 line, u32 row) { return &numbers[line * LINE + row]; }
};

// Which row and which four of 32 features a thread moves in a round of THREADS: pairs of lanes take whole sectors of a row.
__device__ inline u32 turned_row(u32 t) { return t / 2u % 16u + t / 128u * 16u; }
__device__ inline u32 turned_four(u32 t) { return t % 2u + t / 32u % 4u * 2u; }

// Loads features from `from` on of rows of x [end, width] from `first` on; zeros past both ends. A thread has AT_ONCE loads under
// way, which take registers.
template <u32 AT_ONCE = 2u, u32 ROWS>
__device__ inline void load_turned(Turned<ROWS>& tile, const float* x, u32 first, u32 end, u32 width, u32 from) {
#pragma unroll AT_ONCE
  for (u32 t = threadIdx.x; t < ROWS * LINES / 4u; t += THREADS) {
    const u32 row = first + turned_row(t);
    const u32 four = 4u * turned_four(t);
    const float4 numbers = four_of(x + size_t(row) * width, from + four, width, row < end);
    float* const to = tile.at(four, turned_row(t));
    to[0] = numbers.x;
    to[Turned<ROWS>::LINE] = numbers.y;
    to[2u * Turned<ROWS>::LINE] = numbers.z;
    to[3u * Turned<ROWS>::LINE] = numbers.w;
  }
}

// Loads columns from `col` on of 32 rows of x [.., width] from `first` on as they lie, into [32, COLS]; zeros past the width, and
// for rows that are not there(row).
template <u32 COLS, u32 AT_ONCE = 2u, typename There>
__device__ inline void load_lines(float* lines, const float* x, u32 first, u32 width, u32 col, There there) {
#pragma unroll AT_ONCE
  for (u32 t = threadIdx.x; t < LINES * COLS / 4u; t += THREADS) {
    const u32 row = first + t / (COLS / 4u);
    const float4 numbers = four_of(x + size_t(row) * width, col + 4u * (t % (COLS / 4u)), width, there(row));
    reinterpret_cast<float4*>(lines)[t] = numbers;
  }
}

// Neighbouring numbers of shared memory in one load; they begin at a multiple of as many.
template <u32 COUNT> struct Run;
template <> struct Run<1> { typedef float Type; };
template <> struct Run<2> { typedef float2 Type; };
template <> struct Run<4> { typedef float4 Type; };

template <u32 COUNT> __device__ inline void read_run(float (&numbers)[COUNT], const float* from) {
  typedef typename Run<COUNT>::Type Together;
  const Together x = *reinterpret_cast<const Together*>(from);
  const float* parts = reinterpret_cast<const float*>(&x);
#pragma unroll
  for (u32 i = 0u; i < COUNT; i++) { numbers[i] = parts[i]; }
}

template <u32 COUNT> __device__ inline void write_run(float* to, const float (&numbers)[COUNT]) {
  typedef typename Run<COUNT>::Type Together;
  Together x;
  float* parts = reinterpret_cast<float*>(&x);
#pragma unroll
  for (u32 i = 0u; i < COUNT; i++) { parts[i] = numbers[i]; }
  *reinterpret_cast<Together*>(to) = x;
}

// What follows is for threads with HIGH rows each that stand eight side by side.

// Adds products of `depth` features of the thread's rows and four of 32 keys; where SUM, their sums.
template <bool SUM, u32 ROWS, u32 HIGH>
__device__ inline void add_products(
    float (&products)[HIGH][4], Turned<ROWS>& rows, Turned<LINES>& keys, u32 depth, u32 ty, u32 tx) {
#pragma unroll 4
  for (u32 c = 0u; c < depth; c++) {
    float xs[HIGH];
    float ys[4];
    read_run(xs, rows.at(c, HIGH * ty));
    read_run(ys, keys.at(c, 4u * tx));
#pragma unroll
    for (u32 a = 0u; a < HIGH; a++) {
#pragma unroll
      for (u32 b = 0u; b < 4u; b++) {
        if (SUM) { products[a][b] += xs[a] + ys[b]; } else { products[a][b] += xs[a] * ys[b]; }
      }
    }
  }
}

// Of WIDE columns of a thread as many lie side by side; then comes the next run of the eight threads.
template <u32 WIDE> __device__ inline u32 column_of(u32 tx, u32 c) {
  constexpr u32 RUN = WIDE < 4u ? WIDE : 4u;
  return RUN * (c / RUN * 8u + tx) + c % RUN;
}

// Adds weights of the thread's rows times lines [32, 8 WIDE] for `count` of them, and calls also(line, weights of the rows).
template <u32 ROWS, u32 HIGH, u32 WIDE, typename Also>
__device__ inline void add_lines(
    float (&sums)[HIGH][WIDE], Turned<ROWS>& weights, const float* lines, u32 count, u32 ty, u32 tx, Also also) {
  constexpr u32 RUN = WIDE < 4u ? WIDE : 4u;
#pragma unroll 4
  for (u32 line = 0u; line < count; line++) {
    float ws[HIGH];
    read_run(ws, weights.at(line, HIGH * ty));
    also(line, ws);
#pragma unroll
    for (u32 part = 0u; part < WIDE / RUN; part++) {
      float xs[RUN];
      read_run(xs, &lines[line * 8u * WIDE + RUN * (8u * part + tx)]);
#pragma unroll
      for (u32 a = 0u; a < HIGH; a++) {
#pragma unroll
        for (u32 c = 0u; c < RUN; c++) { sums[a][RUN * part + c] += ws[a] * xs[c]; }
      }
    }
  }
}
