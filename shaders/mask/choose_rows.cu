// A finished row [e] for every token: listed[slot] where the row has a slot below c, else sums[0..e], divided by the denominator
// sums[e] where there is one. sums [b, h, n, p], slot [b, h, n], listed [c, e], query_mask [b, h, n], out [b, h, n, e]. One
// thread per number.
extern "C" __global__ void __launch_bounds__(THREADS) choose_rows(
    Params params, const float* __restrict__ sums, const u32* __restrict__ slot, const float* __restrict__ listed,
    const u8* __restrict__ query_mask, float* __restrict__ out) {
  const size_t size = size_t(params.n) * params.e;
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 head = blockIdx.x / blocks_per_head;
  const size_t element = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (element >= size) { return; }
  const u32 row = u32(element / params.e);
  const u32 column = u32(element % params.e);
  bool asked = true;
  if (HAS_QUERY_MASK) {
    const size_t of_head = size_t(head / params.h) * params.query_mask_b + size_t(head % params.h) * params.query_mask_h;
    asked = query_mask[of_head + row] != 0u;
  }
  float value = 0.0f;
  if (asked) {
    const size_t line = size_t(head) * params.n + row;
    const u32 place = slot[line];
    if (place < params.c) {
      value = listed[size_t(place) * params.e + column];
    } else {
      value = sums[line * params.p + column];
      if (params.p > params.e) {
        const float total = sums[line * params.p + params.e];
        value = total == 0.0f ? 0.0f : value / total;
      }
    }
  }
  out[head * size + element] = value;
}
