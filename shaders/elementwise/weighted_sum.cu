// out = alpha x + beta y, all [b, h, n, m]. Sixteen bytes per thread: a vector, or four words that lie THREADS apart, so that a
// warp's are side by side.
typedef Words<VECTORS>::Type Item;
constexpr u32 EACH = VECTORS ? 1u : 4u;

extern "C" __global__ void __launch_bounds__(THREADS) weighted_sum(
    Params params, const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out) {
  const size_t items = size_t(params.b) * params.h * params.n * params.m / (VECTORS ? 4u : 1u);
  const size_t first = size_t(blockIdx.x) * EACH * THREADS + threadIdx.x;
  for (u32 k = 0u; k < EACH; k++) {
    const size_t at = first + k * THREADS;
    if (at < items) {
      reinterpret_cast<Item*>(out)[at] = params.alpha * reinterpret_cast<const Item*>(x)[at]
        + params.beta * reinterpret_cast<const Item*>(y)[at];
    }
  }
}
