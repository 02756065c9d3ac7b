// out = x, both [b, h, n], as one line of vectors or words: one item per thread, neighbours side by side.
typedef Words<VECTORS>::Type Item;

extern "C" __global__ void __launch_bounds__(THREADS) probe_copy(
    Params params, const float* __restrict__ x, float* __restrict__ out) {
  const size_t items = size_t(params.b) * params.h * params.n / (VECTORS ? 4u : 1u);
  const size_t at = size_t(blockIdx.x) * THREADS + threadIdx.x;
  if (at < items) { reinterpret_cast<Item*>(out)[at] = reinterpret_cast<const Item*>(x)[at]; }
}
