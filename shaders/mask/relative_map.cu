// The weights that chosen queries give to all keys: out[j, l] = T[i - j] <q[i], k[j]> for i = rows[l], divided by their sum
// unless RAW. q, k [b, h, n, r], table [h or 1, t], key_mask [b, h, n], segment [n, 2], rows [c], out [b, h, n, c]. One query per
// block.
extern "C" __global__ void __launch_bounds__(THREADS) relative_map(
    Params params, const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ table,
    const u8* __restrict__ key_mask, const u32* __restrict__ segment, const u32* __restrict__ rows, float* __restrict__ out) {
  const u32 head = blockIdx.x / params.c;
  const u32 number = blockIdx.x % params.c;
  const u32 row = rows[number];
  const float* query = q + (size_t(head) * params.n + min(row, params.n - 1u)) * params.r;
  write_row(params, table, key_mask, segment, head, number, row, out, [&](u32 key) {
    const float* of_key = k + (size_t(head) * params.n + key) * params.r;
    float sums[4] = {};
    u32 c = 0u;
    for (; c + 4u <= params.r; c += 4u) {
#pragma unroll
      for (u32 i = 0u; i < 4u; i++) { sums[i] += query[c + i] * of_key[c + i]; }
    }
    for (; c < params.r; c++) { sums[0] += query[c] * of_key[c]; }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  });
}
