// out[i, c] = x[i, c] / x[i, e], 0 where the denominator is 0 or the row is left out; x [b, h, n, p], p = e + 1, out [b, h, n,
// e], den [b, h, n] the denominators. One thread per element of x; that of the last column writes the denominator.
extern "C" __global__ void __launch_bounds__(THREADS) divide_rows(
    Params params, const float* __restrict__ x, const u8* __restrict__ query_mask, float* __restrict__ out,
    float* __restrict__ den) {
  const size_t size = size_t(params.n) * params.p;
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 batch = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= size) { return; }
  const u32 row = u32(item / params.p);
  const u32 col = u32(item % params.p);
  bool kept = true;
  if (HAS_QUERY_MASK) {
    const size_t from = size_t(batch / params.h) * params.query_mask_b + size_t(batch % params.h) * params.query_mask_h;
    kept = query_mask[from + row] != 0u;
  }
  const size_t line = size_t(batch) * params.n + row;
  const float below = kept ? x[line * params.p + params.e] : 0.0f;
  if (col == params.e) {
    if (HAS_DEN) { den[line] = below; }
    return;
  }
  out[line * params.e + col] = below == 0.0f ? 0.0f : x[line * params.p + col] / below;
}
