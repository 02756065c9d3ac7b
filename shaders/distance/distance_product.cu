// A mask by distance times channels, without the mask: y[i] = sum_j f(d[i, j]) x[j], f by a table.
// x [b, h, n, c], distances words [b or 1, h or 1, m, w], table [h or 1, t], y [b, h, m, c].
//
// A block makes ROWS rows x 64 channels: 8 x 16 threads, each of which looks up the weights of ROWS / 8 rows x 4 of 64 keys, and
// then has ROWS / 8 rows x 4 channels of the result in registers. Values are copied while the weights are looked up. A second
// stage of them would let one block less be resident, and the look-ups need them all.
constexpr u32 R = ROWS / 8u;

extern "C" __global__ void __launch_bounds__(THREADS) distance_product(
    Params params, const float* __restrict__ x, const u32* __restrict__ distances, const float* __restrict__ table,
    float* __restrict__ y) {
  __shared__ float4 weights[KEYS * ROWS / 4u];
  __shared__ float4 values[VALUE_KEYS * VALUE_COLS / 4u];
  const Block block = block_of<ROWS>(params.m, divided_up(params.c, VALUE_COLS), params.h);
  const u32 head = block.head;
  const u32 h = block.h;
  const u32 row0 = block.row0;
  const u32 col0 = block.part * VALUE_COLS;
  const u32 n = params.n;
  const float* const x_head = x + size_t(head) * n * params.c;
  const u32* const d_head = distances + size_t(block.b) * params.distances_b + size_t(h) * params.distances_h;
  const float* const f = table + (params.tables > 1u ? size_t(h) * params.t : 0u);
  const u32 ty = threadIdx.x / 16u;
  const u32 tx = threadIdx.x % 16u;

  float result[R][4] = {};
  const auto begin_values = [&](u32 key) {
    copy_values(values, x_head, key, n, params.c, col0, [](u32) { return true; });
    commit_copies();
  };
  for (u32 key0 = 0u; key0 < n; key0 += KEYS) {
    begin_values(key0);
    float w[R][4];
#pragma unroll
    for (u32 a = 0u; a < R; a++) {
      const u32 row = min(row0 + entry_of<8u>(ty, a), params.m - 1u);
      weights_of(w[a], f, params.t, d_head + size_t(row) * params.w, key0 + 4u * tx, n);
    }
    store_weights<8u>(weights, w, ty, tx);
    const u32 count = min(KEYS, n - key0);
    for (u32 first = 0u; first < count; first += VALUE_KEYS) {
      if (first > 0u) { begin_values(key0 + first); }
      wait_copies<0u>();
      __syncthreads(); // weights and values are complete before anyone multiplies
      add_values<false, 8u>(result, weights, values, first, min(VALUE_KEYS, count - first), ty, tx);
      __syncthreads(); // nobody overwrites weights or values that others still read
    }
  }
#pragma unroll
  for (u32 a = 0u; a < R; a++) {
    const u32 row = row0 + entry_of<8u>(ty, a);
    if (row >= params.m) { continue; }
    float* const line = y + (size_t(head) * params.m + row) * params.c;
#pragma unroll
    for (u32 i = 0u; i < 4u; i++) {
      const u32 col = col0 + 4u * tx + i;
      if (col < params.c) { line[col] = result[a][i]; }
    }
  }
}
