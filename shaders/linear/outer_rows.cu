// out[i, l (e + 1) + c] = k[i, first + l] [v[i], 1][c], 0 where token i is left out (selected: it may hold anything); k [b, h, n,
// r], v [b, h, n, e], out [b, h, n, s]. One thread per element.
extern "C" __global__ void __launch_bounds__(THREADS) outer_rows(
    Params params, const float* __restrict__ k, const float* __restrict__ v, const u8* __restrict__ keep,
    float* __restrict__ out) {
  const Item item = item_of(params.n, params.s);
  if (!item.there) { return; }
  const u32 feature = item.col / (params.e + 1u);
  const u32 col = item.col % (params.e + 1u);
  bool kept = true;
  if (HAS_KEEP) {
    kept = keep[size_t(item.head / params.h) * params.keep_b + size_t(item.head % params.h) * params.keep_h + item.row] != 0u;
  }
  const size_t token = size_t(item.head) * params.n + item.row;
  float value = 0.0f;
  if (kept) {
    value = k[token * params.r + params.first + feature];
    if (col < params.e) { value *= v[token * params.e + col]; }
  }
  out[item.at] = value;
}
