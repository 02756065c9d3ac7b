// out [b, h, n, e + 1] = [x[i], 1] where token i is kept, zeros elsewhere, x [b, h, n, e]. One thread per element. Zeros are
// selected, not multiplied: rows that are left out may hold anything.
extern "C" __global__ void __launch_bounds__(THREADS) append_one(
    Params params, const float* __restrict__ x, const u8* __restrict__ keep, float* __restrict__ out) {
  const Item item = item_of(params.n, params.p);
  if (!item.there) { return; }
  bool kept = true;
  if (HAS_KEEP) {
    kept = keep[size_t(item.head / params.h) * params.keep_b + size_t(item.head % params.h) * params.keep_h + item.row] != 0u;
  }
  float value = 0.0f;
  if (kept) { value = item.col < params.e ? x[(size_t(item.head) * params.n + item.row) * params.e + item.col] : 1.0f; }
  out[item.at] = value;
}
