// y[i, h e + c] = x[h, i, c], through ELU where asked: that where it is at least 0, e^x - 1 below. x [batch, heads, n, e], y
// [batch, 1, n, p], p = heads e. A thread takes one number, or four.
typedef Words<FOUR>::Type Value;
constexpr u32 LANES = FOUR ? 4u : 1u;

__device__ inline float elu(float x) {
  if (ELU == 0u || !(x < 0.0f)) { return x; }
  // Near 0 by its series, because the difference would lose the digits of a small x.
  const float near = x * (1.0f + x * (0.5f + x * (1.0f / 6.0f + x * (1.0f / 24.0f + x * (1.0f / 120.0f + x * (1.0f / 720.0f))))));
  return x > -0.3f ? near : exp_accurate(x) - 1.0f;
}

__device__ inline float4 elu(float4 x) { return make_float4(elu(x.x), elu(x.y), elu(x.z), elu(x.w)); }

extern "C" __global__ void __launch_bounds__(THREADS) join_heads(
    Params params, const float* __restrict__ x, float* __restrict__ y) {
  const u32 width = params.p / LANES;
  const u32 channels = params.e / LANES;
  const Item item = item_of(params.n, width); // of a batch element
  if (!item.there) { return; }
  const size_t head = size_t(item.head) * params.heads + item.col / channels;
  const size_t at = (head * params.n + item.row) * channels + item.col % channels;
  reinterpret_cast<Value*>(y)[item.at] = elu(reinterpret_cast<const Value*>(x)[at]);
}
