// e^x within 2 ULP for every finite x, by the same steps as in exp.wgsl, so that both backends give the same numbers.
__device__ inline float exp_accurate(float x) {
  const float clamped = fminf(fmaxf(x, -87.3f), 88.72f);
  const float k = floorf(clamped * 1.44269504088896f + 0.5f);
  const float r = (clamped - k * 0.693145751953125f) - k * 1.42860682030941723e-6f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = (p * r) * r + r;
  // 2^k in two factors, so that k = 128 does not overflow before the mantissa brings the product back.
  const int half_k = int(k) / 2;
  const int rest_k = int(k) - half_k;
  const float scaled = (1.0f + p) * __uint_as_float(u32(half_k + 127) << 23) * __uint_as_float(u32(rest_k + 127) << 23);
  return x >= -87.3f ? scaled : 0.0f;
}
