// Takes the first iterate where its residual is at most 1e-2, else the second where its own is, else the first with a code that
// says so. first, second [b, h, s, s], of which the leading m x m counts; residuals [b, h, 1]; bound [b, h, 2]; x [b, h, m, m];
// status [b, h, 4]: residual, bound, and the code 0, 2 or 3. Four words per thread; the first thread of a matrix writes its
// status.
constexpr u32 EACH = 4u;

extern "C" __global__ void __launch_bounds__(THREADS) inverse_choice(
    Params params, const float* __restrict__ first, const float* __restrict__ first_residual, const float* __restrict__ second,
    const float* __restrict__ second_residual, const float* __restrict__ bound, float* __restrict__ x,
    float* __restrict__ status) {
  const Stretch stretch = stretch_of_block(params.m, params.m, EACH * THREADS);
  const u32 head = stretch.head;
  const float one = first_residual[head];
  const float two = second_residual[head];
  // NaN is not acceptable.
  const u32 code = one <= 0.01f ? 0u : (two <= 0.01f ? 2u : 3u);
  const float* const chosen = (code == 2u ? second : first) + size_t(head) * params.s * params.s;
  const size_t items = size_t(params.m) * params.m;
#pragma unroll
  for (u32 k = 0u; k < EACH; k++) {
    const u32 i = k * THREADS + threadIdx.x;
    const size_t at = stretch.first + i;
    if (at < items) {
      const u32 row = stretch.row + (stretch.col + i) / params.m;
      const u32 col = (stretch.col + i) % params.m;
      x[head * items + at] = chosen[size_t(row) * params.s + col];
    }
  }
  if (stretch.first == 0u && threadIdx.x == 0u) {
    float* const to = status + 4u * size_t(head);
    to[0] = code == 2u ? two : one;
    to[1] = bound[2u * size_t(head)];
    to[2] = bound[2u * size_t(head) + 1u];
    to[3] = float(code);
  }
}
