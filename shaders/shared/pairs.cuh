// All pairs of a tile of rows and a tile of columns: sums over coordinates in registers, and weights of pairs times values.
//
// Threads stand in lanes: 8 or more below each other (ty) and some side by side (tx). A thread has R rows and C columns, in fours
// that lie apart by the lanes' whole width, or one by one (SPREAD). Coordinates come in slices: a slice is [SIDE entries, DEPTH
// coordinates], as they lie in global memory, so that they are copied without a thread's help. A thread reads four coordinates of
// an entry at a time. The eight fours of a line of 128 bytes are turned by the lane that reads them: eight lanes that read the
// same coordinates of their entries meet every bank once, and so do those that fill a line.

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
template <u32 LANES, bool SPREAD = false> __device__ inline u32 entry_of(u32 lane, u32 a) {
  return SPREAD ? lane + LANES * a : 4u * (lane + a / 4u * LANES) + a % 4u;
}

// Number within a slice of the float4 of coordinates 4 four to 4 four + 3 of entry i.
template <u32 DEPTH, bool SPREAD> __device__ inline u32 slice_at(u32 i, u32 four) {
  const u32 turn = SPREAD ? i * DEPTH / SLICE % 8u : i / 4u % 8u;
  return (i * (DEPTH / 4u) + four) ^ turn;
}

// Coordinates of a slice that begins at `from`, rounded up to whole fours.
template <u32 DEPTH = SLICE> __device__ inline u32 slice_depth(u32 d, u32 from) {
  return min(DEPTH, (d - from + 3u) / 4u * 4u);
}

// Begins to copy the coordinates from `from` on of SIDE entries of x [count, d] from `first` on into a slice; zeros beyond both
// ends. Where FOURS, rows of x are whole float4s.
template <u32 SIDE, u32 DEPTH = SLICE, bool SPREAD = false>
__device__ inline void copy_slice(float4* slice, const float* x, u32 first, u32 count, u32 d, u32 from) {
  const u32 depth = slice_depth<DEPTH>(d, from);
  if (FOURS) {
    // A thread keeps to four coordinates.
    constexpr u32 ENTRIES = THREADS / (DEPTH / 4u);
    static_assert(THREADS % (DEPTH / 4u) == 0u && SIDE % ENTRIES == 0u, "whole lines of threads");
    const u32 four = threadIdx.x % (DEPTH / 4u);
    const u32 mine = threadIdx.x / (DEPTH / 4u);
    if (4u * four >= depth) { return; }
    const float* const own = x + size_t(first + mine) * d + (from + 4u * four);
    copy_async_16s<SIDE / ENTRIES>(
        [&](u32 i) { return &slice[slice_at<DEPTH, SPREAD>(mine + i * ENTRIES, four)]; },
        [&](u32 i) { return own + size_t(i * ENTRIES) * d; }, [&](u32 i) { return first + mine + i * ENTRIES < count; });
  } else {
    float* const words = reinterpret_cast<float*>(slice);
#pragma unroll 2
    for (u32 t = threadIdx.x; t < SIDE * DEPTH; t += THREADS) {
      const u32 c = t % DEPTH;
      const u32 i = t / DEPTH;
      if (c >= depth) { continue; }
      const bool inside = first + i < count && from + c < d;
      const float* const own = x + size_t(first + i) * d + (from + c);
      copy_async_4(&words[4u * slice_at<DEPTH, SPREAD>(i, c / 4u) + c % 4u], own, inside);
    }
  }
}

// Adds a slice's coordinates to the sums of the thread's R x C pairs.
template <u32 KIND, u32 ROW_LANES, u32 COL_LANES, u32 DEPTH = SLICE, bool SPREAD = false, u32 R, u32 C>
__device__ inline void add_pairs(float (&sums)[R][C], const float4* rows, const float4* cols, u32 depth, u32 ty, u32 tx) {
#pragma unroll 1
  for (u32 four = 0u; four < depth / 4u; four++) {
    float4 col[C];
#pragma unroll
    for (u32 b = 0u; b < C; b++) { col[b] = cols[slice_at<DEPTH, SPREAD>(entry_of<COL_LANES, SPREAD>(tx, b), four)]; }
#pragma unroll
    for (u32 a = 0u; a < R; a++) {
      const float4 row = rows[slice_at<DEPTH, false>(entry_of<ROW_LANES>(ty, a), four)];
#pragma unroll
      for (u32 b = 0u; b < C; b++) { sums[a][b] = with_pair<KIND>(sums[a][b], row.x, col[b].x); }
#pragma unroll
      for (u32 b = 0u; b < C; b++) { sums[a][b] = with_pair<KIND>(sums[a][b], row.y, col[b].y); }
#pragma unroll
      for (u32 b = 0u; b < C; b++) { sums[a][b] = with_pair<KIND>(sums[a][b], row.z, col[b].z); }
#pragma unroll
      for (u32 b = 0u; b < C; b++) { sums[a][b] = with_pair<KIND>(sums[a][b], row.w, col[b].w); }
    }
  }
}

// What a block makes of a result: `row0` is the first of its rows, of `parts` parts of the columns it has one.
struct Block {
  u32 head, b, h, row0, part;
};

// Blocks take the parts of a tile of ROWS rows one after the other, then the tiles of a head.
template <u32 ROWS> __device__ inline Block block_of(u32 rows, u32 parts, u32 heads) {
  const u32 tiles = divided_up(rows, ROWS);
  const u32 head = blockIdx.x / parts / tiles;
  return {head, head / heads, head % heads, blockIdx.x / parts % tiles * ROWS, blockIdx.x % parts};
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

// Shared memory of a walk: ROWS rows, which STAY if they have at most two slices or come slice by slice, and columns, slice by
// slice. The values of VALUE_KEYS keys take as much as a slice of columns.
template <u32 ROWS, bool STAY> struct Tiles {
  float4 rows[STAY ? 2u : STAGES][SLICE * ROWS / 4u];
  float4 cols[STAGES][SLICE * KEYS / 4u];
};

// A walk of a block's ROWS rows of x [rows, d] from `row0` on over all of y [cols, d], 64 at a time: 8 x 16 threads have ROWS / 8
// rows x 4 columns each.
template <u32 ROWS, bool STAY> struct Walk {
  Tiles<ROWS, STAY>& tiles;
  const float* x;
  u32 row0, rows;
  const float* y;
  u32 cols, d;
  Stages stages;

  // Fills a stage with the coordinates from `from` on of the columns from `col0` on, and of the rows if those do not stay.
  __device__ inline void fill(u32 stage, u32 col0, u32 from) const {
    copy_slice<KEYS>(tiles.cols[stage], y, col0, cols, d, from);
    if (!STAY) { copy_slice<ROWS>(tiles.rows[stage], x, row0, rows, d, from); }
  }

  // Begins with the first columns; there must be some.
  __device__ inline void begin() {
    stages.begin([&](u32 stage) {
      if (STAY) {
        for (u32 from = 0u; from < d; from += SLICE) { copy_slice<ROWS>(tiles.rows[from / SLICE], x, row0, rows, d, from); }
      }
      fill(stage, 0u, 0u);
    });
  }

  // Adds the pairs with the columns from `col0` on to the sums, and fills the stage of what comes behind them, by then(stage).
  template <u32 KIND, u32 R, typename Then> __device__ inline void add(float (&sums)[R][4], u32 col0, Then then) {
    u32 from = 0u;
    do {
      const auto fill_next = [&](u32 stage) {
        if (d - from > SLICE) { fill(stage, col0, from + SLICE); } else { then(stage); }
      };
      stages.step(fill_next, [&](u32 stage) {
        const float4* const own = tiles.rows[STAY ? from / SLICE : stage];
        add_pairs<KIND, 8u, 16u>(sums, own, tiles.cols[stage], slice_depth(d, from), threadIdx.x / 16u, threadIdx.x % 16u);
      });
      from += SLICE;
    } while (from < d);
  }

  // For every 64 columns: each(sums of pairs, first column).
  template <u32 KIND, typename Each> __device__ inline void sums(Each each) {
    if (cols == 0u) { return; }
    begin();
    for (u32 col0 = 0u; col0 < cols; col0 += KEYS) {
      float pairs[ROWS / 8u][4] = {};
      add<KIND>(pairs, col0, [&](u32 stage) {
        if (cols - col0 > KEYS) { fill(stage, col0 + KEYS, 0u); }
      });
      each(pairs, col0);
    }
  }
};

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

// Begins to copy columns `col` to `col` + 63 of the values v [count, e] of VALUE_KEYS keys from `first` on into shared memory
// [VALUE_KEYS, 64]; zeros beyond the ends and for keys that `kept` leaves out, whatever they hold.
template <typename Kept>
__device__ inline void copy_values(float4* values, const float* v, u32 first, u32 count, u32 e, u32 col, Kept kept) {
  if (FOURS) {
    constexpr u32 LINES = THREADS / (VALUE_COLS / 4u);
    static_assert(THREADS % (VALUE_COLS / 4u) == 0u && VALUE_KEYS % LINES == 0u, "whole lines of threads");
    const u32 c = col + threadIdx.x % (VALUE_COLS / 4u) * 4u;
    const u32 mine = first + threadIdx.x / (VALUE_COLS / 4u);
    const float* const own = v + size_t(mine) * e + c;
    const auto inside = [&](u32 i) {
      const u32 key = mine + i * LINES;
      return key < count && c < e && kept(key);
    };
    copy_async_16s<VALUE_KEYS / LINES>(
        [&](u32 i) { return &values[threadIdx.x + i * THREADS]; }, [&](u32 i) { return own + size_t(i * LINES) * e; }, inside);
  } else {
    float* const words = reinterpret_cast<float*>(values);
#pragma unroll 2
    for (u32 t = threadIdx.x; t < VALUE_KEYS * VALUE_COLS; t += THREADS) {
      const u32 key = first + t / VALUE_COLS;
      const u32 c = col + t % VALUE_COLS;
      copy_async_4(&words[t], v + size_t(key) * e + c, key < count && c < e && kept(key));
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

// result [R rows, 4 columns from `col` on] of a walk's rows, with values v [keys, e]: for every 64 keys, weigh(sums of pairs,
// first key) makes weights of the sums and rescales the result, before weights times values are added to it. `weights` is shared
// memory; for `kept` and SELECTED see above.
template <u32 KIND, bool SELECTED, u32 ROWS, bool STAY, u32 R, typename Kept, typename Weigh>
__device__ inline void attend(
    Walk<ROWS, STAY>& walk, float4* weights, const float* v, u32 e, u32 col, float (&result)[R][4], Kept kept, Weigh weigh) {
  if (walk.cols == 0u) { return; }
  const u32 ty = threadIdx.x / 16u;
  const u32 tx = threadIdx.x % 16u;
  const auto fill_values = [&](u32 stage, u32 key) { copy_values(walk.tiles.cols[stage], v, key, walk.cols, e, col, kept); };
  walk.begin();
  for (u32 key0 = 0u; key0 < walk.cols; key0 += KEYS) {
    float sums[R][4] = {};
    walk.template add<KIND>(sums, key0, [&](u32 stage) { fill_values(stage, key0); });
    weigh(sums, key0);
    store_weights<8u>(weights, sums, ty, tx);
    const u32 count = min(KEYS, walk.cols - key0);
    for (u32 first = 0u; first < count; first += VALUE_KEYS) {
      const auto fill_next = [&](u32 stage) {
        if (count - first > VALUE_KEYS) {
          fill_values(stage, key0 + first + VALUE_KEYS);
        } else if (walk.cols - key0 > KEYS) {
          walk.fill(stage, key0 + KEYS, 0u);
        }
      };
      walk.stages.step(fill_next, [&](u32 stage) {
        add_values<SELECTED, 8u>(result, weights, walk.tiles.cols[stage], first, min(VALUE_KEYS, count - first), ty, tx);
      });
    }
  }
}
