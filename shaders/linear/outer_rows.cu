// out[i, l (e + 1) + c] = k[i, first + l] [v[i], 1][c], 0 where token i is left out (selected: it may hold anything); k [b, h, n,
// r], v [b, h, n, e], out [b, h, n, s]. One thread per element.
extern "C" __global__ void __launch_bounds__(THREADS) outer_rows(
    Params params, const float* __restrict__ k, const float* __restrict__ v, const u8* __restrict__ keep,
    float* __restrict__ out) {
  const size_t size = size_t(params.n) * params.s;
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 batch = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= size) { return; }
  const u32 i = u32(item / params.s);
  const u32 place = u32(item % params.s);
  const u32 feature = place / (params.e + 1u);
  const u32 col = place % (params.e + 1u);
  bool kept = true;
  if (HAS_KEEP) {
    kept = keep[size_t(batch / params.h) * params.keep_b + size_t(batch % params.h) * params.keep_h + i] != 0u;
  }
  const size_t token = size_t(batch) * params.n + i;
  float value = 0.0f;
  if (kept) {
    value = k[token * params.r + params.first + feature];
    if (col < params.e) { value *= v[token * params.e + col]; }
  }
  out[batch * size + item] = value;
}
