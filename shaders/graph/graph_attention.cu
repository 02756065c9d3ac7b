// Attention inside every graph of a batch: out[i] = sum over j of mask[i, j] a(q[i], k[j]) v[j] / the same of ones, j the nodes
// of i's graph. q, k [b, h, n, r], v, out [b, h, n, e], offsets and blocks [graphs + 1], mask [1 or h, z], graph by graph. Rows
// without keys are zeros. A block takes 64 queries of one graph and COLS value columns, a thread 2 x COLS/8 of them. Keys come in
// tiles of 32, whose scores are 2 x 4 a thread. With softmax every row keeps its largest score so far, of pairs that the mask
// does not leave out, and what was summed is scaled when it grows.
constexpr u32 LINEAR = 0u;
constexpr u32 SOFTMAX = 1u;
constexpr float LOWEST = -3.0e38f;
constexpr u32 ROWS = 64u;
constexpr u32 KEYS = LINES;
constexpr u32 HIGH = ROWS * 8u / THREADS; // rows of a thread
constexpr u32 WIDE = COLS / 8u; // columns of a thread

// Graph g has the nodes from offset g on, the first from 0.
__device__ inline u32 offset_of(const Params& params, const u32* offsets, u32 graph) {
  return graph == 0u ? 0u : min(offsets[graph], params.n);
}

// The graph of a block: those of a graph begin at number (first node / 64) + graph, so that every graph has room for its last,
// partial block. A warp tries 32 graphs at a time; all its lanes must come here.
__device__ inline u32 graph_of(const Params& params, const u32* offsets, u32 block) {
  u32 low = 0u;
  u32 high = params.s - 1u;
  while (low < high) {
    const u32 apart = divided_up(high - low, WARP);
    const u32 tried = low + (threadIdx.x % WARP + 1u) * apart;
    const bool reached = tried <= high && offset_of(params, offsets, tried) / ROWS + tried <= block;
    low += u32(__popc(__ballot_sync(ALL_LANES, reached))) * apart;
    high = min(high, low + apart - 1u);
  }
  return low;
}

// The largest number of the eight lanes that share rows.
__device__ inline float row_max(float x) {
  for (u32 apart = 4u; apart > 0u; apart /= 2u) { x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, apart)); }
  return x;
}

__device__ inline float row_sum(float x) {
  for (u32 apart = 4u; apart > 0u; apart /= 2u) { x += __shfl_xor_sync(ALL_LANES, x, apart); }
  return x;
}

extern "C" __global__ void __launch_bounds__(THREADS) graph_attention(
    Params params, const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
    const u32* __restrict__ offsets, const u32* __restrict__ blocks, const float* __restrict__ mask, float* __restrict__ out) {
  __shared__ Turned<ROWS> q_tile;
  __shared__ Turned<KEYS> k_tile;
  __shared__ Turned<ROWS> weights; // lines are keys
  __align__(16) __shared__ float values[KEYS * COLS];
  const u32 slices = divided_up(params.e, COLS);
  const u32 blocks_per_head = params.n / ROWS + params.s;
  const u32 col0 = blockIdx.x % slices * COLS;
  const u32 block = blockIdx.x / slices % blocks_per_head;
  const u32 batch = blockIdx.x / slices / blocks_per_head;
  const u32 graph = graph_of(params, offsets, block);
  const u32 first = offset_of(params, offsets, graph);
  const bool is_graph = graph + 1u < params.s;
  const u32 last = is_graph ? max(offset_of(params, offsets, graph + 1u), first) : params.n;
  const u32 row0 = first + (block - min(block, first / ROWS + graph)) * ROWS;
  if (row0 >= last) { return; } // the whole block
  const u32 row_end = row0 + min(ROWS, last - row0);
  // What is left over behind the last graph has no keys.
  const u32 nodes = is_graph ? last - first : 0u;
  const size_t mask_from = HAS_MASK ? blocks[graph] : 0u;
  const float* table = HAS_MASK && params.masks > 1u ? mask + size_t(batch % params.h) * params.z : mask;
  const float* queries = q + size_t(batch) * params.n * params.r;
  const float* keys = k + (size_t(batch) * params.n + first) * params.r;
  const float* lines = v + (size_t(batch) * params.n + first) * params.e;
  const u32 ty = threadIdx.x / 8u;
  const u32 tx = threadIdx.x % 8u;
  const u32 row = row0 + HIGH * ty;
  float sums[HIGH][WIDE] = {};
  float totals[HIGH] = {};
  float tops[HIGH];
#pragma unroll
  for (u32 a = 0u; a < HIGH; a++) { tops[a] = LOWEST; }
  u32 loaded = 0xffffffffu; // first feature of the queries in the tile
  for (u32 key0 = 0u; key0 < nodes; key0 += KEYS) {
    load_lines<COLS, 1u>(values, lines, key0, params.e, col0, [&](u32 key) { return key < nodes; });
    float scores[HIGH][4] = {};
    for (u32 f0 = 0u; f0 < params.r; f0 += KEYS) {
      if (loaded != f0) { load_turned<1u>(q_tile, queries, row0, row_end, params.r, f0); }
      loaded = f0;
      load_turned<1u>(k_tile, keys, key0, nodes, params.r, f0);
      __syncthreads(); // the slices are complete before anyone multiplies
      add_products<(SCORES > SOFTMAX)>(scores, q_tile, k_tile, min(KEYS, params.r - f0), ty, tx);
      __syncthreads(); // nobody overwrites a slice that others still read
    }
#pragma unroll
    for (u32 a = 0u; a < HIGH; a++) {
      float masks[4];
#pragma unroll
      for (u32 b = 0u; b < 4u; b++) {
        const u32 key = key0 + 4u * tx + b;
        const bool inside = row + a < row_end && key < nodes;
        masks[b] = inside ? 1.0f : 0.0f;
        if (HAS_MASK) {
          const size_t at = mask_from + size_t(row + a - first) * nodes + key;
          masks[b] = inside && at < params.z ? table[at] : 0.0f;
        }
      }
      if (SCORES != LINEAR) {
        float greatest = LOWEST;
#pragma unroll
        for (u32 b = 0u; b < 4u; b++) {
          float s = scores[a][b];
          if (SCORES != SOFTMAX && !(s > 0.0f)) { s *= params.slope; }
          s *= params.scale;
          scores[a][b] = s;
          if (masks[b] != 0.0f) { greatest = fmaxf(greatest, s); }
        }
        const float top = fmaxf(tops[a], row_max(greatest));
        const float shrink = exp_accurate(tops[a] - top);
        tops[a] = top;
        totals[a] *= shrink;
#pragma unroll
        for (u32 c = 0u; c < WIDE; c++) { sums[a][c] *= shrink; }
#pragma unroll
        for (u32 b = 0u; b < 4u; b++) { scores[a][b] = exp_accurate(scores[a][b] - top); }
      }
      // Pairs without weight give 0, whatever the key holds.
#pragma unroll
      for (u32 b = 0u; b < 4u; b++) {
        scores[a][b] = masks[b] != 0.0f ? masks[b] * scores[a][b] : 0.0f;
        totals[a] += scores[a][b];
      }
    }
#pragma unroll
    for (u32 b = 0u; b < 4u; b++) {
      float ws[HIGH];
#pragma unroll
      for (u32 a = 0u; a < HIGH; a++) { ws[a] = scores[a][b]; }
      write_run(weights.at(4u * tx + b, HIGH * ty), ws);
    }
    __syncthreads(); // weights and values are complete before anyone multiplies
    add_lines(sums, weights, values, min(KEYS, nodes - key0), ty, tx, [](u32, const float(&)[HIGH]) {});
    __syncthreads(); // nobody overwrites weights or values that others still read
  }
#pragma unroll
  for (u32 a = 0u; a < HIGH; a++) {
    const float total = row_sum(totals[a]);
    if (row + a < row_end) {
      const Divisor divisor = divisor_of(total);
      float* line = out + (size_t(batch) * params.n + row + a) * params.e;
#pragma unroll
      for (u32 c = 0u; c < WIDE; c++) {
        const u32 col = col0 + column_of<WIDE>(tx, c);
        if (col < params.e) { line[col] = total == 0.0f ? 0.0f : divided(sums[a][c], divisor); }
      }
    }
  }
}
