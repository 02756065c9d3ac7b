// From what each chunk gives to the state with which it is entered: out[c] = sum over chunks before c of their states, each times
// gamma^(tokens between); the second half of a two-sided state runs backward. states, out [b, h, c, s]; last [b, h, s] the state
// after all. A block takes 32 numbers of a state and each of its warps a stretch of the chunks: it adds up its stretch, learns
// from the stretches before it what it begins with, and walks it again, now from the cache.
constexpr u32 STRETCHES = THREADS / WARP;
// Chunks whose numbers are on their way at a time.
constexpr u32 AHEAD = 8u;

// What a state is multiplied by when it passes a chunk: 0 where another segment begins in it, or where it has no token.
__device__ inline float carry(
    const Params& params, u32 batch, u32 chunk, bool backward, const float* powers, const u32* reach) {
  const u32 first = min(chunk * params.rows, params.tokens);
  const u32 end = first + min(params.rows, params.tokens - first);
  if (first >= end) { return 0.0f; }
  if (HAS_REACH) {
    const u32* own = reach + size_t(batch / params.h) * params.reach_b + size_t(batch % params.h) * params.reach_h;
    const u32 seen = own[backward ? 2u * size_t(first) + 1u : 2u * size_t(end - 1u)];
    if (seen <= end - first) { return 0.0f; }
  }
  return HAS_POWERS ? powers[size_t(batch % params.h % params.heads) * params.t + (end - first)] : 1.0f;
}

extern "C" __global__ void __launch_bounds__(THREADS) scan_states(
    Params params, const float* __restrict__ states, const float* __restrict__ powers, const u32* __restrict__ reach,
    float* __restrict__ out, float* __restrict__ last) {
  __shared__ float totals[STRETCHES][WARP];
  __shared__ float factors[STRETCHES][WARP];
  const u32 blocks_per_head = divided_up(params.s, WARP);
  const u32 batch = blockIdx.x / blocks_per_head;
  const u32 lane = threadIdx.x % WARP;
  const u32 stretch = threadIdx.x / WARP;
  const u32 item = blockIdx.x % blocks_per_head * WARP + lane;
  const bool there = item < params.s;
  const bool backward = TWO_SIDED == 1u && item >= params.s / 2u;
  const u32 steps = divided_up(params.c, STRETCHES);
  const u32 from = min(stretch * steps, params.c);
  const u32 to = min(from + steps, params.c);
  const size_t start = size_t(batch) * params.c * params.s + item;
  float run = 0.0f;
  float passed = 1.0f;
  for (u32 round = 0u; round < 2u; round++) {
    for (u32 step0 = from; step0 < to; step0 += AHEAD) {
      float own[AHEAD];
      float factor[AHEAD];
#pragma unroll
      for (u32 i = 0u; i < AHEAD; i++) {
        const u32 step = min(step0 + i, to - 1u);
        const u32 chunk = backward ? params.c - 1u - step : step;
        own[i] = there ? states[start + size_t(chunk) * params.s] : 0.0f;
        factor[i] = carry(params, batch, chunk, backward, powers, reach);
      }
#pragma unroll
      for (u32 i = 0u; i < AHEAD; i++) {
        const u32 step = step0 + i;
        if (step >= to) { break; }
        const u32 chunk = backward ? params.c - 1u - step : step;
        if (round == 1u && there) { out[start + size_t(chunk) * params.s] = run; }
        // Selected: what does not pass may have been anything.
        run = (factor[i] == 0.0f ? 0.0f : factor[i] * run) + own[i];
        passed *= factor[i];
      }
    }
    if (round == 0u) {
      totals[stretch][lane] = run;
      factors[stretch][lane] = passed;
      __syncthreads(); // the sums of all stretches are there
      run = 0.0f;
      for (u32 before = 0u; before < stretch; before++) {
        const float factor = factors[before][lane];
        run = (factor == 0.0f ? 0.0f : factor * run) + totals[before][lane];
      }
    }
  }
  if (HAS_LAST) {
    if (there && stretch == STRETCHES - 1u) { last[size_t(batch) * params.s + item] = run; }
  }
}
