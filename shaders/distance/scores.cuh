// What becomes of a query and a key: products of features, or softmax of scaled products, or softmax of sums through a leaky
// ReLU.
constexpr u32 LINEAR = 0u;
constexpr u32 SOFTMAX = 1u;
constexpr float LOWEST = -3.0e38f;

// The score of a pair from the sum over its features.
__device__ inline float score_of(float sum, float scale, float slope) {
  if (SCORES == LINEAR) { return sum; }
  if (SCORES == SOFTMAX) { return scale * sum; }
  return scale * (sum > 0.0f ? sum : slope * sum);
}
