// Several heads' rows as one: mean, largest, smallest or one of them, less the same of another; logarithm if asked. One thread
// per token. x, less [heads, n], out [n]. What is not finite in any head that counts stays so.
constexpr float LOG10_OF_2 = 0.30103f;

// By the bits, as in WGSL, where comparisons with NaN mean nothing.
__device__ inline bool is_finite(float value) { return (__float_as_uint(value) & 0x7f800000u) != 0x7f800000u; }

// Token i of the heads that count, fused.
__device__ inline float fused(const float* x, Params params, u32 i) {
  if (params.mode == 3u) { return x[size_t(params.head) * params.n + i]; }
  float sum = x[i];
  for (u32 head = 1u; head < params.heads; head++) {
    const float value = x[size_t(head) * params.n + i];
    if (!is_finite(sum)) { break; }
    if (!is_finite(value)) {
      sum = value;
    } else if (params.mode == 0u) {
      sum += value;
    } else {
      sum = params.mode == 1u ? fmaxf(sum, value) : fminf(sum, value);
    }
  }
  return params.mode == 0u && is_finite(sum) ? sum / float(params.heads) : sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) fuse_heads(
    Params params, const float* __restrict__ x, const float* __restrict__ less, float* __restrict__ out) {
  const size_t i = thread_number();
  if (i >= params.n) { return; }
  float y = fused(x, params, u32(i));
  if (HAS_LESS) { y -= fused(less, params, u32(i)); }
  if (params.log == 1u && is_finite(y)) { y = log2f(fmaxf(fabsf(y), params.least)) * LOG10_OF_2; }
  out[i] = y;
}
