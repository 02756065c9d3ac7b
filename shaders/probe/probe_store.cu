// out = value, [b, h, n], as one line of vectors or words: four items per thread and nothing read, neighbours side by side.
typedef Words<VECTORS>::Type Item;
constexpr u32 EACH = 4u;

extern "C" __global__ void __launch_bounds__(THREADS) probe_store(Params params, float* __restrict__ out) {
  const size_t items = size_t(params.b) * params.h * params.n / (VECTORS ? 4u : 1u);
  const size_t first = size_t(blockIdx.x) * EACH * THREADS + threadIdx.x;
  for (u32 k = 0u; k < EACH; k++) {
    const size_t at = first + k * THREADS;
    if (at < items) { reinterpret_cast<Item*>(out)[at] = filled<Item>(params.value); }
  }
}
