// Exact attention over a range of keys: out[i] = sum_j w[i, j] v[j] / sum_j w[i, j], w[i, j] = exp(x[i, j] - x[i]) over kept
// keys, where x[i, j] is the pair's exponent and x[i] the largest of its row (or the sums themselves, or the row's state; see
// attention_rows.rs). q [b, h, n, d], k [b, h, m, d], v [b, h, m, e], lambda [h or 1], masks bytes [b, h, mm] and [b, h, n, mm],
// out [b, h, n, p].
//
// A block makes ROWS rows x 64 value columns: 8 x 16 threads, each with ROWS / 8 rows x 4 keys of the pairs and then x 4 columns
// of the result in registers. Queries of up to 64 coordinates stay in shared memory (STAY); deeper ones come again, slice by
// slice. Two stages fill the 48 KiB that a block may have. As many blocks stay resident as with one stage, but on cards with 100
// KiB of shared memory: there deep queries have two instead of three, and tiles of 32 rows, which are for grids that leave
// multiprocessors empty, three instead of four. A slice that arrives while another is used is worth more.
constexpr u32 R = ROWS / 8u;
// Blocks that a multiprocessor has to hold. Left to itself, the compiler spills for the sake of one more.
constexpr u32 RESIDENT = ROWS == 64u ? 3u : 4u;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) attention_rows(
    Params params, const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
    const float* __restrict__ lambda, const u8* __restrict__ key_mask, const u8* __restrict__ mask, float* __restrict__ out) {
  __shared__ Tiles<ROWS, STAY> tiles;
  __shared__ float4 weights[KEYS * ROWS / 4u];
  const Block block = block_of<ROWS>(params.n, max(divided_up(params.e, VALUE_COLS), 1u), params.h);
  const u32 head = block.head;
  const u32 b = block.b;
  const u32 h = block.h;
  const u32 row0 = block.row0;
  const u32 col0 = block.part * VALUE_COLS;
  const u32 n = params.n;
  const u32 m = params.m;
  const u32 d = params.d;
  const u8* key_flags = key_mask;
  if (HAS_KEY_MASK) { key_flags += size_t(b) * params.key_mask_b + size_t(h) * params.key_mask_h + params.key_from; }
  const u8* pair_flags = mask;
  if (HAS_MASK) { pair_flags += size_t(b) * params.mask_b + size_t(h) * params.mask_h + params.key_from; }
  const Divisor bandwidth = divisor_of(METRIC == 0u ? 1.0f : lambda[h % params.bandwidths]);
  const auto key_is_kept = [&](u32 key) { return !HAS_KEY_MASK || key_flags[key] != 0u; };
  const u32 ty = threadIdx.x / 16u;
  const u32 tx = threadIdx.x % 16u;

  float result[R][4] = {};
  // Shifts agree between the 16 threads of a row, sums cover the thread's own keys.
  float shift[R];
  float total[R] = {};
#pragma unroll
  for (u32 a = 0u; a < R; a++) { shift[a] = NO_KEY; }

  Walk<ROWS, STAY> walk = {tiles, q + size_t(head) * n * d, row0, n, k + size_t(head) * m * d, m, d};
  const auto weigh = [&](float (&sums)[R][4], u32 key0) {
    bool in[4];
#pragma unroll
    for (u32 i = 0u; i < 4u; i++) {
      const u32 key = key0 + 4u * tx + i;
      in[i] = key < m && key_is_kept(key);
    }
#pragma unroll
    for (u32 a = 0u; a < R; a++) {
      const size_t flags = size_t(min(row0 + entry_of<8u>(ty, a), n - 1u)) * params.mm;
      bool kept[4];
      float top = NO_KEY;
#pragma unroll
      for (u32 i = 0u; i < 4u; i++) {
        kept[i] = in[i] && (!HAS_MASK || pair_flags[flags + key0 + 4u * tx + i] != 0u);
        sums[a][i] = exponent(sums[a][i], params.scale, bandwidth);
        if (kept[i]) { top = fmaxf(top, sums[a][i]); }
      }
      top = fmaxf(shift[a], lanes16_max(top));
      // Once a row has met its largest exponents, nothing is left to rescale.
      const float keep = top == shift[a] ? 1.0f : exp_accurate(shift[a] - top);
      shift[a] = top;
#pragma unroll
      for (u32 i = 0u; i < 4u; i++) {
        sums[a][i] = kept[i] ? exp_accurate(sums[a][i] - top) : 0.0f;
        result[a][i] *= keep;
      }
      total[a] = total[a] * keep + ((sums[a][0] + sums[a][1]) + (sums[a][2] + sums[a][3]));
    }
  };
  attend<METRIC, HAS_MASK>(walk, weights, v + size_t(head) * m * params.e, params.e, col0, result, key_is_kept, weigh);

#pragma unroll
  for (u32 a = 0u; a < R; a++) {
    const float all = lanes16_sum(total[a]);
    const u32 row = row0 + entry_of<8u>(ty, a);
    if (row >= n) { continue; }
    float* const line = out + (size_t(head) * n + row) * params.p;
    const bool state = params.p > params.e;
    // The sum of a row with keys is at least 1, because the nearest key weighs exactly 1.
    const Divisor divisor = divisor_of(state || NORMALISE != 0u ? 1.0f : fmaxf(all, 1.0f));
    const float factor = state || NORMALISE == 0u ? 1.0f : exp_accurate(shift[a]);
#pragma unroll
    for (u32 i = 0u; i < 4u; i++) {
      const u32 col = col0 + 4u * tx + i;
      if (col < params.e) { line[col] = divided(result[a][i], divisor) * factor; }
    }
    if (state && col0 == 0u && tx == 0u) {
      line[params.e] = shift[a];
      line[params.e + 1u] = all;
    }
  }
}
