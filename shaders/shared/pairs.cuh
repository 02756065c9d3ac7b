// All pairs of a tile of rows and a tile of columns: sums over coordinates in registers, and weights of pairs times values.
//
// Threads stand in lanes: 8 or more below each other (ty) and some side by side (tx). A thread has R rows and C columns in fours,
// which lie apart by the lanes' whole width, so that a warp reads whole lines of shared memory. Coordinates come in slices of
// SLICE: a slice is [SLICE, SIDE], coordinate by coordinate, and the fours of each line are turned by the coordinate's number, so
// that neither storing float4s across the lines nor reading along them meets a bank twice. What is read word by word is PADDED
// instead, by a word for each line, which leaves less to compute.

constexpr u32 SLICE = 32u;
// Kinds of pairs, in the numbering of the kernels' parameter `metric`.
constexpr u32 PRODUCT = 0u;
constexpr u32 L1 = 1u;
constexpr u32 SQUARES = 2u;
constexpr u32 SUM = 3u;

template <u32 KIND> __device__ inline float with_pair(float sum, float x, float y) {
  if (KIND == PRODUCT) { return sum + x * y; }
  if (KIND == SUM) { return sum + (x + y); }
  const float apart = x - y;
  return KIND == L1 ? sum + fabsf(apart) : sum + apart * apart;
}

// Number within the tile of the a-th entry of a lane.
template <u32 LANES> __device__ inline u32 entry_of(u32 lane, u32 a) { return 4u * (lane + a / 4u * LANES) + a % 4u; }

// Word of a slice where coordinate c of entry i stands.
template <u32 SIDE, bool PADDED> __device__ inline u32 slice_at(u32 c, u32 i) {
  return PADDED ? c * (SIDE + 1u) + i : c * SIDE + (i ^ (c / 4u % 8u * 4u));
}

// Coordinates of a slice that begins at `from`, rounded up to whole fours.
__device__ inline u32 slice_depth(u32 d, u32 from) { return min(SLICE, (d - from + 3u) / 4u * 4u); }

// Brings `depth` coordinates from `from` on of SIDE entries of x [count, d] from `first` on into a slice; zeros beyond both ends.
// FOURS: rows of x are whole float4s.
template <u32 SIDE, bool FOURS, bool PADDED = false>
__device__ inline void load_slice(float4* slice, const float* x, u32 first, u32 count, u32 d, u32 from, u32 depth) {
  float* const words = reinterpret_cast<float*>(slice);
  if (FOURS) {
    // A thread keeps to four coordinates and loads several entries before it stores them.
    constexpr u32 ENTRIES = THREADS / (SLICE / 4u);
    constexpr u32 AT_ONCE = 4u;
    static_assert(THREADS % (SLICE / 4u) == 0u && SIDE % ENTRIES == 0u, "whole lines of threads");
    const u32 c = threadIdx.x % (SLICE / 4u) * 4u;
    const u32 mine = threadIdx.x / (SLICE / 4u);
    if (c >= depth) { return; }
    const float* const own = x + size_t(first + mine) * d + (from + c);
#pragma unroll
    for (u32 i0 = 0u; i0 < SIDE; i0 += AT_ONCE * ENTRIES) {
      float4 fours[AT_ONCE];
#pragma unroll
      for (u32 k = 0u; k < AT_ONCE; k++) {
        const u32 i = i0 + k * ENTRIES;
        fours[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i < SIDE && first + mine + i < count) { fours[k] = *reinterpret_cast<const float4*>(own + size_t(i) * d); }
      }
#pragma unroll
      for (u32 k = 0u; k < AT_ONCE; k++) {
        const u32 i = i0 + k * ENTRIES;
        if (i >= SIDE) { break; }
        words[slice_at<SIDE, PADDED>(c, mine + i)] = fours[k].x;
        words[slice_at<SIDE, PADDED>(c + 1u, mine + i)] = fours[k].y;
        words[slice_at<SIDE, PADDED>(c + 2u, mine + i)] = fours[k].z;
        words[slice_at<SIDE, PADDED>(c + 3u, mine + i)] = fours[k].w;
      }
    }
  } else {
    for (u32 t = threadIdx.x; t < SIDE * SLICE; t += THREADS) {
      const u32 c = t % SLICE;
      const u32 i = t / SLICE;
      if (c >= depth) { continue; }
      const bool inside = first + i < count && from + c < d;
      words[slice_at<SIDE, PADDED>(c, i)] = inside ? x[size_t(first + i) * d + (from + c)] : 0.0f;
    }
  }
}

// N numbers of a line of float4s that is turned by `turn`: the fours at `lane`, `lane + LANES`, ...
template <u32 N, u32 LANES> __device__ inline void read_fours(float (&x)[N], const float4* line, u32 lane, u32 turn) {
#pragma unroll
  for (u32 part = 0u; part < N / 4u; part++) {
    const float4 four = line[(lane + part * LANES) ^ turn];
    x[4u * part] = four.x;
    x[4u * part + 1u] = four.y;
    x[4u * part + 2u] = four.z;
    x[4u * part + 3u] = four.w;
  }
}

// Adds a slice's coordinates to the sums of the thread's R x C pairs.
template <u32 KIND, u32 ROW_LANES, u32 COL_LANES, u32 R, u32 C>
__device__ inline void add_pairs(float (&sums)[R][C], const float4* rows, const float4* cols, u32 depth, u32 ty, u32 tx) {
  for (u32 quad = 0u; quad < depth / 4u; quad++) {
#pragma unroll
    for (u32 i = 0u; i < 4u; i++) {
      const u32 c = 4u * quad + i;
      float row[R];
      float col[C];
      read_fours<R, ROW_LANES>(row, rows + c * (ROW_LANES * R / 4u), ty, quad % 8u);
      read_fours<C, COL_LANES>(col, cols + c * (COL_LANES * C / 4u), tx, quad % 8u);
#pragma unroll
      for (u32 a = 0u; a < R; a++) {
#pragma unroll
        for (u32 b = 0u; b < C; b++) { sums[a][b] = with_pair<KIND>(sums[a][b], row[a], col[b]); }
      }
    }
  }
}

// The largest number and the sum over 16 lanes side by side, the same in all of them. All lanes of the warp call.
__device__ inline float lanes16_max(float x) {
  for (u32 apart = 8u; apart > 0u; apart /= 2u) { x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, apart)); }
  return x;
}

__device__ inline float lanes16_sum(float x) {
  for (u32 apart = 8u; apart > 0u; apart /= 2u) { x += __shfl_xor_sync(ALL_LANES, x, apart); }
  return x;
}

// What follows is for 64 keys and 64 columns of values at a time: 16 lanes side by side, each with four keys, and then four
// columns.
constexpr u32 KEYS = 64u;
constexpr u32 VALUE_COLS = 64u;
// Keys whose values are in shared memory at once.
constexpr u32 VALUE_KEYS = 32u;

// Stores the thread's weights [R rows, 4 keys] into shared memory [KEYS, rows], where a key's fours are turned by its lane.
template <u32 ROW_LANES, u32 R>
__device__ inline void store_weights(float4* weights, const float (&w)[R][4], u32 ty, u32 tx) {
#pragma unroll
  for (u32 i = 0u; i < 4u; i++) {
#pragma unroll
    for (u32 part = 0u; part < R / 4u; part++) {
      const u32 a = 4u * part;
      weights[(4u * tx + i) * (ROW_LANES * R / 4u) + ((ty + part * ROW_LANES) ^ (tx % 8u))] =
          make_float4(w[a][i], w[a + 1u][i], w[a + 2u][i], w[a + 3u][i]);
    }
  }
}

// Brings columns `col` .. `col` + 64 of the values v [count, e] of VALUE_KEYS keys from `first` on into shared memory
// [VALUE_KEYS, 64]; zeros beyond the ends and for keys that `kept` leaves out, whatever they hold.
template <bool FOURS, typename Kept>
__device__ inline void load_values(float4* values, const float* v, u32 first, u32 count, u32 e, u32 col, Kept kept) {
  if (FOURS) {
    constexpr u32 LINES = THREADS / (VALUE_COLS / 4u);
    static_assert(THREADS % (VALUE_COLS / 4u) == 0u && VALUE_KEYS % LINES == 0u, "whole lines of threads");
    const u32 c = col + threadIdx.x % (VALUE_COLS / 4u) * 4u;
    const u32 mine = first + threadIdx.x / (VALUE_COLS / 4u);
    const float* const own = v + size_t(mine) * e + c;
    float4 fours[VALUE_KEYS / LINES];
#pragma unroll
    for (u32 k = 0u; k < VALUE_KEYS / LINES; k++) {
      const u32 key = mine + k * LINES;
      fours[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (key < count && c < e && kept(key)) { fours[k] = *reinterpret_cast<const float4*>(own + size_t(k * LINES) * e); }
    }
#pragma unroll
    for (u32 k = 0u; k < VALUE_KEYS / LINES; k++) { values[threadIdx.x + k * THREADS] = fours[k]; }
  } else {
    float* const words = reinterpret_cast<float*>(values);
    for (u32 t = threadIdx.x; t < VALUE_KEYS * VALUE_COLS; t += THREADS) {
      const u32 key = first + t / VALUE_COLS;
      const u32 c = col + t % VALUE_COLS;
      words[t] = key < count && c < e && kept(key) ? v[size_t(key) * e + c] : 0.0f;
    }
  }
}

// out[a][c] += weight of row a and key * value c of the key, for `count` keys from number `first` of the tile on, whose values
// are in shared memory. SELECTED: where a weight is not above 0 the value is not looked at, since it may be NaN.
template <bool SELECTED, u32 ROW_LANES, u32 R>
__device__ inline void add_values(
    float (&out)[R][4], const float4* weights, const float4* values, u32 first, u32 count, u32 ty, u32 tx) {
  // Keys past the end have neither weights nor values.
  for (u32 quad = 0u; quad < (count + 3u) / 4u; quad++) {
#pragma unroll
    for (u32 i = 0u; i < 4u; i++) {
      const u32 j = 4u * quad + i;
      float w[R];
      read_fours<R, ROW_LANES>(w, weights + (first + j) * (ROW_LANES * R / 4u), ty, (first / 4u + quad) % 8u);
      const float4 value = values[j * (VALUE_COLS / 4u) + tx];
#pragma unroll
      for (u32 a = 0u; a < R; a++) {
        if (SELECTED && !(w[a] > 0.0f)) { continue; }
        out[a][0] += w[a] * value.x;
        out[a][1] += w[a] * value.y;
        out[a][2] += w[a] * value.z;
        out[a][3] += w[a] * value.w;
      }
    }
  }
}
