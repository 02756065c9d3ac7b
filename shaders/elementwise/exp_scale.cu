// out = exp(-x / lambda[head]); x, out [b, h, n, m], lambda [h]. Sixteen bytes per thread: a vector, or four words that lie
// THREADS apart, so that a warp's are side by side.
typedef Words<VECTORS>::Type Item;
constexpr u32 EACH = VECTORS ? 1u : 4u;

__device__ inline float kernel_value(float x, float scale) { return exp_accurate(-x / scale); }
__device__ inline float4 kernel_value(float4 x, float scale) {
  return make_float4(kernel_value(x.x, scale), kernel_value(x.y, scale), kernel_value(x.z, scale), kernel_value(x.w, scale));
}

extern "C" __global__ void __launch_bounds__(THREADS) exp_scale(
    Params params, const float* __restrict__ x, const float* __restrict__ lambda, float* __restrict__ out) {
  const size_t items = size_t(params.n) * params.m / (VECTORS ? 4u : 1u);
  const u32 blocks = u32((items + EACH * THREADS - 1u) / (EACH * THREADS));
  const u32 batch = blockIdx.x / blocks;
  const float scale = lambda[batch % params.h];
  const Item* const from = reinterpret_cast<const Item*>(x) + batch * items;
  Item* const to = reinterpret_cast<Item*>(out) + batch * items;
  const size_t first = size_t(blockIdx.x % blocks) * EACH * THREADS + threadIdx.x;
  for (u32 k = 0u; k < EACH; k++) {
    const size_t at = first + k * THREADS;
    if (at < items) { to[at] = kernel_value(from[at], scale); }
  }
}
