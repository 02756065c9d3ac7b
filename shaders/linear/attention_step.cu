// n more tokens of causal attention: S = gamma S + k[t] [v[t], 1], out[t] = q[t] S / its last column. state, next [b, h, r, w], w
// = e + 1. One block per head. A warp takes every eighth feature and a lane two of 64 columns, so each number of the state is
// always in the same thread's hands; only the sums over features pass between warps.
constexpr u32 WARPS = THREADS / WARP;
constexpr u32 COLUMNS = 2u * WARP;

extern "C" __global__ void __launch_bounds__(THREADS) attention_step(
    Params params, const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
    const float* __restrict__ decay, const u8* __restrict__ key_mask, const float* __restrict__ state,
    float* __restrict__ next, float* __restrict__ out) {
  __shared__ float parts[WARPS][COLUMNS];
  __shared__ float denominator;
  const u32 batch = blockIdx.x;
  const u32 warp = threadIdx.x / WARP;
  const u32 lane = threadIdx.x % WARP;
  const size_t from = size_t(batch) * params.r * params.w;
  const float gamma = HAS_DECAY ? decay[batch % params.h % params.heads] : 1.0f;
  if (params.n == 0u) {
    for (size_t i = threadIdx.x; i < size_t(params.r) * params.w; i += THREADS) { next[from + i] = state[from + i]; }
  }
  for (u32 t = 0u; t < params.n; t++) {
    const size_t token = size_t(batch) * params.n + t;
    bool is_key = true;
    if (HAS_KEY_MASK) {
      const size_t from = size_t(batch / params.h) * params.key_mask_b + size_t(batch % params.h) * params.key_mask_h;
      is_key = key_mask[from + t] != 0u;
    }
    for (u32 col0 = 0u; col0 < params.w; col0 += COLUMNS) {
      float sums[2] = {};
      for (u32 half = 0u; half < 2u; half++) {
        const u32 c = col0 + half * WARP + lane;
        if (c >= params.w) { continue; }
        const float value = c < params.e ? v[token * params.e + c] : 1.0f;
        for (u32 l = warp; l < params.r; l += WARPS) {
          const size_t at = from + size_t(l) * params.w + c;
          float x = gamma * (t == 0u ? state[at] : next[at]);
          // Selected: what is no key may hold anything.
          if (is_key) { x += k[token * params.r + l] * value; }
          next[at] = x;
          sums[half] += q[token * params.r + l] * x;
        }
      }
      parts[warp][lane] = sums[0];
      parts[warp][WARP + lane] = sums[1];
      __syncthreads(); // the sums of all warps are there
      const u32 c = col0 + threadIdx.x;
      if (threadIdx.x < COLUMNS && c < params.w) {
        float sum = 0.0f;
        for (u32 part = 0u; part < WARPS; part++) { sum += parts[part][threadIdx.x]; }
        if (c < params.e) { out[token * params.e + c] = sum; } else { denominator = sum; }
      }
      __syncthreads(); // nobody overwrites sums that others still add; after the last columns the denominator is there
    }
    // Each quotient is divided by the thread that wrote its sum.
    const float below = denominator;
    for (u32 c = threadIdx.x; threadIdx.x < COLUMNS && c < params.e; c += COLUMNS) {
      const size_t at = token * params.e + c;
      out[at] = below == 0.0f ? 0.0f : out[at] / below;
    }
    __syncthreads(); // everyone has read the denominator before the next token's
  }
}
