// out[o, i, c] = sum over j of gamma^|i - j| x[o, j, c]; x, out [b, h, o, n, m]. One thread walks a line of n forth and back;
// neighbouring threads walk neighbouring lines. Only sums of what is positive: no transform that would lose digits.
extern "C" __global__ void __launch_bounds__(THREADS) axis_scan(
    Params params, const float* __restrict__ x, const float* __restrict__ decay, float* __restrict__ out) {
  const Item item = item_of(params.o, params.m);
  if (!item.there) { return; }
  const float gamma = decay[item.head % params.h % params.heads];
  const size_t from = (size_t(item.head) * params.o + item.row) * params.n * params.m + item.col;
  const size_t apart = params.m;
  // Four numbers are on their way at a time: one load after the other would wait for each.
  constexpr u32 AHEAD = 4u;
  float run = 0.0f;
  for (u32 i0 = 0u; i0 < params.n; i0 += AHEAD) {
    float loaded[AHEAD];
#pragma unroll
    for (u32 i = 0u; i < AHEAD; i++) { loaded[i] = i0 + i < params.n ? x[from + (i0 + i) * apart] : 0.0f; }
#pragma unroll
    for (u32 i = 0u; i < AHEAD; i++) {
      run = gamma * run + loaded[i];
      if (i0 + i < params.n) { out[from + (i0 + i) * apart] = run; }
    }
  }
  run = 0.0f;
  for (u32 left0 = params.n; left0 > 0u; left0 -= min(left0, AHEAD)) {
    float loaded[AHEAD];
    float forward[AHEAD];
#pragma unroll
    for (u32 i = 0u; i < AHEAD; i++) {
      const bool there = i < left0;
      const size_t at = from + (there ? left0 - 1u - i : 0u) * apart;
      loaded[i] = there ? x[at] : 0.0f;
      forward[i] = there ? out[at] : 0.0f;
    }
#pragma unroll
    for (u32 i = 0u; i < AHEAD; i++) {
      run *= gamma;
      if (i < left0) { out[from + (left0 - 1u - i) * apart] = forward[i] + run; }
      run += loaded[i];
    }
  }
}
