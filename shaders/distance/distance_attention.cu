// Attention under a mask by distance: out[i] = sum_j f(d[i, j]) a(q[i], k[j]) v[j] / sum_j f(d[i, j]) a(q[i], k[j]), f by a
// table; a a product, or softmax of products or sums (SCORES; see distance_attention.rs); zeros where a row has no key. q [b, h,
// m, r], k [b, h, n, r], v [b, h, n, e], distances words [b or 1, h or 1, m, w], table [h or 1, t], key_mask bytes [b, h, n],
// query_mask bytes [b, h, m], out [b, h, m, e].
//
// A block makes ROWS rows x 64 value columns: 8 x 16 threads, each with ROWS / 8 rows x 4 keys of the pairs, whose distances are
// one word (or two), and then x 4 columns of the result. With softmax the largest score so far is kept, of pairs that the mask
// does not leave out, and what was summed is scaled when it grows.
// With two stages 64 rows take 48 KiB: on cards with 100 KiB of shared memory two blocks stay resident instead of three.
constexpr u32 R = ROWS / 8u;
// Blocks that a multiprocessor has to hold; older cards have no memory for more. Left to itself, the compiler spills for the sake
// of one more.
constexpr u32 RESIDENT = (ROWS == 64u ? 2u : 3u) + (STAGES - 1u);
// Whether queries stay: where there are two stages they take no more memory for it.
constexpr bool STAYING = STAY && STAGES == 2u;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) distance_attention(
    Params params, const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
    const u32* __restrict__ distances, const float* __restrict__ table, const u8* __restrict__ key_mask,
    const u8* __restrict__ query_mask, float* __restrict__ out) {
  __shared__ Tiles<ROWS, STAYING> tiles;
  __shared__ float4 weights[KEYS * ROWS / 4u];
  const Block block = block_of<ROWS>(params.m, divided_up(params.e, VALUE_COLS), params.h);
  const u32 head = block.head;
  const u32 b = block.b;
  const u32 h = block.h;
  const u32 row0 = block.row0;
  const u32 col0 = block.part * VALUE_COLS;
  const u32 rows = params.m;
  const u32 n = params.n;
  const u32 r = params.r;
  const u32* const d_head = distances + size_t(b) * params.distances_b + size_t(h) * params.distances_h;
  const float* const f = table + (params.tables > 1u ? size_t(h) * params.t : 0u);
  const u8* key_flags = key_mask;
  if (HAS_KEY_MASK) { key_flags += size_t(b) * params.key_mask_b + size_t(h) * params.key_mask_h; }
  const u8* query_flags = query_mask;
  if (HAS_QUERY_MASK) { query_flags += size_t(b) * params.query_mask_b + size_t(h) * params.query_mask_h; }
  const auto key_is_kept = [&](u32 key) { return !HAS_KEY_MASK || key_flags[key] != 0u; };
  const u32 ty = threadIdx.x / 16u;
  const u32 tx = threadIdx.x % 16u;

  float result[R][4] = {};
  float total[R] = {};
  float top[R];
#pragma unroll
  for (u32 a = 0u; a < R; a++) { top[a] = LOWEST; }
  Walk<ROWS, STAYING> walk = {tiles, q + size_t(head) * rows * r, row0, rows, k + size_t(head) * n * r, n, r};
  const auto weigh = [&](float (&sums)[R][4], u32 key0) {
    bool in[4];
#pragma unroll
    for (u32 i = 0u; i < 4u; i++) { in[i] = key0 + 4u * tx + i < n && key_is_kept(key0 + 4u * tx + i); }
#pragma unroll
    for (u32 a = 0u; a < R; a++) {
      const u32 row = row0 + entry_of<8u>(ty, a);
      float w[4];
      // Rows past the end see no key.
      weights_of(w, f, params.t, d_head + size_t(row) * params.w, key0 + 4u * tx, row < rows ? n : 0u);
      float next = LOWEST;
#pragma unroll
      for (u32 i = 0u; i < 4u; i++) {
        if (!in[i]) { w[i] = 0.0f; }
        sums[a][i] = score_of(sums[a][i], params.scale, params.slope);
        if (w[i] != 0.0f) { next = fmaxf(next, sums[a][i]); }
      }
      if (SCORES != LINEAR) {
        next = fmaxf(top[a], lanes16_max(next));
        const float shrink = next == top[a] ? 1.0f : exp_accurate(top[a] - next);
        top[a] = next;
        total[a] *= shrink;
#pragma unroll
        for (u32 i = 0u; i < 4u; i++) {
          result[a][i] *= shrink;
          sums[a][i] = exp_accurate(sums[a][i] - next);
        }
      }
#pragma unroll
      for (u32 i = 0u; i < 4u; i++) {
        // Pairs without weight give 0, whatever the key holds.
        sums[a][i] = w[i] != 0.0f ? w[i] * sums[a][i] : 0.0f;
      }
      total[a] += (sums[a][0] + sums[a][1]) + (sums[a][2] + sums[a][3]);
    }
  };
  attend<SCORES <= SOFTMAX ? PRODUCT : SUM, false>(
      walk, weights, v + size_t(head) * n * params.e, params.e, col0, result, key_is_kept, weigh);

#pragma unroll
  for (u32 a = 0u; a < R; a++) {
    const float all = lanes16_sum(total[a]);
    const u32 row = row0 + entry_of<8u>(ty, a);
    if (row >= rows) { continue; }
    const Divisor divisor = divisor_of(all);
    const bool empty = all == 0.0f || (HAS_QUERY_MASK && query_flags[row] == 0u);
    float* const line = out + (size_t(head) * rows + row) * params.e;
#pragma unroll
    for (u32 i = 0u; i < 4u; i++) {
      const u32 col = col0 + 4u * tx + i;
      if (col < params.e) { line[col] = empty ? 0.0f : divided(result[a][i], divisor); }
    }
  }
}
