// Given products [b, h, n, c] of chosen queries and all keys under a mask of relative positions, and weights `given` [b, h, n, c]
// of these very rows, of which 0 hides a key: out [b, h, n, c], divided by the sum of a query's unless RAW. table [h or 1, t],
// key_mask [b, h, n], segment [n, 2], rows [c]. One query per block.
extern "C" __global__ void __launch_bounds__(THREADS) weigh_rows(
    Params params, const float* __restrict__ products, const float* __restrict__ table, const u8* __restrict__ key_mask,
    const u32* __restrict__ segment, const u32* __restrict__ rows, const float* __restrict__ given, float* __restrict__ out) {
  const u32 head = blockIdx.x / params.c;
  const u32 number = blockIdx.x % params.c;
  const float* own = products + size_t(head) * params.n * params.c + number;
  const float* weights = given;
  if (HAS_GIVEN) {
    weights += size_t(head / params.h) * params.given_b + size_t(head % params.h) * params.given_h + number;
  }
  write_row(params, table, key_mask, segment, head, number, rows[number], out, [&](u32 key) {
    const float bare = own[size_t(key) * params.c];
    if (!HAS_GIVEN) { return bare; }
    const float weight = weights[size_t(key) * params.c];
    // By choice, so that a hidden key may hold anything.
    return weight == 0.0f ? 0.0f : weight * bare;
  });
}
