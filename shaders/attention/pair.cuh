// What every attention kernel does with one pair of a query and a key: METRIC 0 softmax, 1 Laplacian, 2 Gaussian.

// A row that has met no key yet. Exponents stay within +-1e38, so a difference of two never overflows.
constexpr float NO_KEY = -2.0e38f;

// The exponent of a pair from its product or distance.
__device__ inline float exponent(float sum, float scale, Divisor bandwidth) {
  if (METRIC == 0u) { return fminf(fmaxf(sum * scale, -1.0e38f), 1.0e38f); }
  return fminf(fmaxf(-divided(sum, bandwidth), -1.0e38f), 0.0f);
}
