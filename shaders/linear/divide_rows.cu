// out[i, c] = x[i, c] / x[i, e], 0 where the denominator is 0 or the row is left out; x [b, h, n, p], p = e + 1, out [b, h, n,
// e], den [b, h, n] the denominators. One thread per element of x; that of the last column writes the denominator.
extern "C" __global__ void __launch_bounds__(THREADS) divide_rows(
    Params params, const float* __restrict__ x, const u8* __restrict__ query_mask, float* __restrict__ out,
    float* __restrict__ den) {
  const Item item = item_of(params.n, params.p);
  if (!item.there) { return; }
  bool kept = true;
  if (HAS_QUERY_MASK) {
    const size_t from = size_t(item.head / params.h) * params.query_mask_b + size_t(item.head % params.h) * params.query_mask_h;
    kept = query_mask[from + item.row] != 0u;
  }
  const size_t line = size_t(item.head) * params.n + item.row;
  const float below = kept ? x[line * params.p + params.e] : 0.0f;
  if (item.col == params.e) {
    if (HAS_DEN) { den[line] = below; }
    return;
  }
  out[line * params.e + item.col] = below == 0.0f ? 0.0f : x[line * params.p + item.col] / below;
}
