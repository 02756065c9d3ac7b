// Attention of a chunk's queries: to the chunk's own keys pair by pair, and to all before it (and after it) through its states.
// out[i] = (sum over j of gamma^|i - j| <q[i], k[j]> v[j] + gamma^(i - first + 1) q[i] S) / (the same of ones); q, k [b, h, n,
// r], v [b, h, n, e], states [b, h, c, s], out [b, h, n, p].
// A block takes ROWS queries of one chunk and COLS value columns, a thread 1 or 2 x COLS/8 of them. What a row adds up comes in
// blocks of 32 items with a weight for each row: first the chunk's keys, whose weights are products of queries and keys, then the
// features of a state, whose weights are the queries themselves.
constexpr u32 ITEMS = LINES;
constexpr u32 HIGH = ROWS * 8u / THREADS; // rows of a thread
constexpr u32 WIDE = COLS / 8u; // columns of a thread

extern "C" __global__ void __launch_bounds__(THREADS) chunk_attend(
    Params params, const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
    const float* __restrict__ powers, const u8* __restrict__ key_mask, const u32* __restrict__ reach,
    const float* __restrict__ states, float* __restrict__ out) {
  __shared__ Turned<ROWS> q_tile;
  __shared__ Turned<ITEMS> k_tile;
  __shared__ Turned<ROWS> weights; // lines are items
  __align__(16) __shared__ float values[ITEMS * COLS];
  __shared__ float ones[ITEMS]; // what the ones column has for an item
  const u32 slices = max(divided_up(params.e, COLS), 1u);
  // Row tiles of the longest chunks that can make c of n tokens.
  const u32 row_tiles = divided_up(params.c > 1u ? (params.n - 1u) / (params.c - 1u) : params.n, ROWS);
  const u32 col0 = blockIdx.x % slices * COLS;
  const u32 tile = blockIdx.x / slices % row_tiles;
  const u32 chunk = blockIdx.x / slices / row_tiles % params.c;
  const u32 batch = blockIdx.x / slices / row_tiles / params.c;
  const u32 first = min(chunk * params.rows, params.n);
  const u32 end = first + min(params.rows, params.n - first);
  if (end - first <= tile * ROWS) { return; } // the whole block
  const u32 row0 = first + tile * ROWS;
  const Tokens tokens = tokens_of(params, batch, powers, key_mask, reach);
  const float* queries = q + size_t(batch) * params.n * params.r;
  const float* keys = k + size_t(batch) * params.n * params.r;
  const float* lines = v + size_t(batch) * params.n * params.e;
  const float* chunk_states = states + (size_t(batch) * params.c + chunk) * params.s;
  const u32 ty = threadIdx.x / 8u;
  const u32 tx = threadIdx.x % 8u;
  const u32 row = row0 + HIGH * ty;
  // What this thread's rows see of their segment before and after them.
  u32 seen[2][HIGH];
#pragma unroll
  for (u32 a = 0u; a < HIGH; a++) {
#pragma unroll
    for (u32 side = 0u; side < 2u; side++) { seen[side][a] = row + a < end ? reach_of(tokens, row + a, side) : 0u; }
  }
  float sums[HIGH][WIDE] = {};
  float totals[HIGH] = {};
  const u32 key_end = TWO_SIDED == 1u ? end : min(row0 + ROWS, end);
  const u32 key_blocks = divided_up(key_end - first, ITEMS);
  const u32 feature_blocks = divided_up(params.r, ITEMS);
  const u32 blocks = key_blocks + (1u + TWO_SIDED) * feature_blocks;
  u32 loaded = 0xffffffffu; // first feature of the queries in the tile
  for (u32 block = 0u; block < blocks; block++) {
    const bool near = block < key_blocks;
    const u32 far = near ? 0u : block - key_blocks;
    const u32 side = near ? 0u : far / feature_blocks;
    const u32 item0 = near ? first + block * ITEMS : far % feature_blocks * ITEMS;
    const float* state = chunk_states + size_t(side) * params.r * (params.e + 1u);
    float products[HIGH][4] = {};
    for (u32 c0 = near ? 0u : item0; c0 < (near ? params.r : item0 + 1u); c0 += ITEMS) {
      if (loaded != c0) { load_turned(q_tile, queries, row0, end, params.r, c0); }
      loaded = c0;
      if (near) { load_turned(k_tile, keys, item0, key_end, params.r, c0); }
      __syncthreads(); // queries and keys are complete before anyone multiplies
      if (near) {
        add_products<false>(products, q_tile, k_tile, min(ITEMS, params.r - c0), ty, tx);
        if (params.r - c0 > ITEMS) { __syncthreads(); } // nobody overwrites a slice that others still read
      }
    }
    // Selected: the product with a key that is not seen may be anything, and so may a row of no segment.
#pragma unroll
    for (u32 b = 0u; b < 4u; b++) {
      const u32 item = 4u * tx + b;
      const u32 j = item0 + item;
      const bool counts = near && j < key_end && key_counts(tokens, j);
      float ws[HIGH];
#pragma unroll
      for (u32 a = 0u; a < HIGH; a++) {
        const u32 i = row + a;
        float weight = 0.0f;
        if (near) {
          const bool later = j > i;
          const u32 distance = later ? j - i : i - j;
          if (counts && i < end && (TWO_SIDED == 1u || !later) && distance < (later ? seen[1][a] : seen[0][a])) {
            weight = products[a][b] * power(tokens, distance);
          }
        } else if (i < end) {
          const u32 distance = side == 1u ? end - i : i - first + 1u;
          if (distance < (side == 1u ? seen[1][a] : seen[0][a])) {
            weight = power(tokens, distance) * *q_tile.at(item, HIGH * ty + a);
          }
        }
        ws[a] = weight;
      }
      write_run(weights.at(item, HIGH * ty), ws);
    }
    load_lines<COLS>(values, near ? lines : state, item0, params.e, col0, [&](u32 at) {
      return near ? at < key_end && key_counts(tokens, at) : at < params.r;
    });
    if (threadIdx.x < ITEMS) {
      const u32 at = item0 + threadIdx.x;
      float one = 1.0f;
      if (!near) { one = at < params.r ? state[size_t(params.r) * params.e + at] : 0.0f; }
      ones[threadIdx.x] = one;
    }
    __syncthreads(); // weights and values are complete before anyone multiplies
    const u32 count = min(ITEMS, (near ? key_end : params.r) - item0);
    add_lines(sums, weights, values, count, ty, tx, [&](u32 item, const float(&ws)[HIGH]) {
#pragma unroll
      for (u32 a = 0u; a < HIGH; a++) { totals[a] += ws[a] * ones[item]; }
    });
    __syncthreads(); // nobody overwrites weights or values that others still read
  }
#pragma unroll
  for (u32 a = 0u; a < HIGH; a++) {
    if (row + a >= end) { break; }
    float* line = out + (size_t(batch) * params.n + row + a) * params.p;
    const float total = totals[a];
    const Divisor divisor = divisor_of(total);
#pragma unroll
    for (u32 c = 0u; c < WIDE; c++) {
      const u32 col = col0 + column_of<WIDE>(tx, c);
      float value = sums[a][c];
      // 0 where there is no key.
      if (DIVIDE == 1u) { value = total == 0.0f ? 0.0f : divided(value, divisor); }
      if (col < params.e) { line[col] = value; }
    }
    if (DIVIDE == 0u && col0 == 0u && tx == 0u) { line[params.e] = total; }
  }
}
