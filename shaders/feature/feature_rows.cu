// rows[i] = (m, t): m the row's largest u or |u| (SIDES), t = scale m - |half x|^2, 0 or -|half x|^2 (ENDS).
// u [b, h, n, p], x [b, h, n, d], rows [b, h, n, 2]. Eight lanes share a row, so that a warp reads whole lines of four rows.
constexpr u32 LANES = 8u;
constexpr u32 WIDE = FOURS ? 4u : 1u;

extern "C" __global__ void __launch_bounds__(THREADS) feature_rows(
    Params params, const float* __restrict__ u, const float* __restrict__ x, float* __restrict__ rows) {
  const size_t count = size_t(params.b) * params.h * params.n;
  const size_t row = thread_number() / LANES;
  const u32 lane = threadIdx.x % LANES;
  // Rows past the end repeat the last one, because sums over lanes want all threads; nobody stores them.
  const size_t from = row < count ? row : count - 1u;
  float m = 0.0f;
  if (SIDES != 2u) {
    const float* const line = u + from * params.p;
    // Lanes without a column of their own begin with the first one.
    m = SIDES == 1u ? 0.0f : line[0];
    for (u32 c = lane * WIDE; c < params.p; c += LANES * WIDE) {
      float y[WIDE];
      load_numbers<WIDE>(y, line + c);
#pragma unroll
      for (u32 i = 0u; i < WIDE; i++) { m = fmaxf(m, SIDES == 1u ? fabsf(y[i]) : y[i]); }
    }
  }
  float norm = 0.0f;
  if (HAS_X) {
    const float* const line = x + from * params.d;
    for (u32 c = lane * WIDE; c < params.d; c += LANES * WIDE) {
      float y[WIDE];
      load_numbers<WIDE>(y, line + c);
#pragma unroll
      for (u32 i = 0u; i < WIDE; i++) { norm += (params.half * y[i]) * (params.half * y[i]); }
    }
  }
  for (u32 apart = LANES / 2u; apart > 0u; apart /= 2u) {
    m = fmaxf(m, __shfl_xor_sync(ALL_LANES, m, apart));
    norm += __shfl_xor_sync(ALL_LANES, norm, apart);
  }
  if (lane != 0u || row >= count) { return; }
  float t = fmaxf(-norm, -500.0f);
  if (ENDS == 0u) { t = SIDES == 2u ? norm : params.scale * m - norm; }
  if (ENDS == 1u) { t = 0.0f; }
  rows[row * 2u] = m;
  rows[row * 2u + 1u] = fminf(fmaxf(t, -1e38f), 1e38f);
}
