// out [b, h, n, e + 1] = [x[i], 1] where token i is kept, zeros elsewhere, x [b, h, n, e]. One thread per element. Zeros are
// selected, not multiplied: rows that are left out may hold anything.
extern "C" __global__ void __launch_bounds__(THREADS) append_one(
    Params params, const float* __restrict__ x, const u8* __restrict__ keep, float* __restrict__ out) {
  const size_t size = size_t(params.n) * params.p;
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 batch = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= size) { return; }
  const u32 row = u32(item / params.p);
  const u32 col = u32(item % params.p);
  bool kept = true;
  if (HAS_KEEP) {
    kept = keep[size_t(batch / params.h) * params.keep_b + size_t(batch % params.h) * params.keep_h + row] != 0u;
  }
  float value = 0.0f;
  if (kept) { value = col < params.e ? x[(size_t(batch) * params.n + row) * params.e + col] : 1.0f; }
  out[batch * size + item] = value;
}
