// out = gain (exp(scale (+-u - m) + t) + eps), or gain e^t (cos, sin)(scale u), of rows (m, t); 0 where t says that the row is
// left out. u [b, h, n, p], rows [b, h, n, 2], out [b, h, n, r], r = p, or 2 p for both signs or both waves. One product or four
// of a row per thread.
constexpr u32 WIDE = FOURS ? 4u : 1u;

extern "C" __global__ void __launch_bounds__(THREADS) feature_exp(
    Params params, const float* __restrict__ u, const float* __restrict__ rows, float* __restrict__ out) {
  const size_t at = thread_number() * WIDE;
  if (at >= size_t(params.b) * params.h * params.n * params.p) { return; }
  const Place place = place_of(at, params.p);
  const float m = rows[place.row * 2u];
  const float t = rows[place.row * 2u + 1u];
  const bool kept = t > -750.0f;
  float y[WIDE];
  load_numbers<WIDE>(y, u + at);
  float first[WIDE];
  float second[WIDE];
  const float factor = SIDES == 2u ? params.gain * exp_accurate(t) : 0.0f;
#pragma unroll
  for (u32 i = 0u; i < WIDE; i++) {
    if (SIDES == 2u) {
      const float2 pair = wave(params.scale * y[i]);
      first[i] = kept ? factor * pair.x : 0.0f;
      second[i] = kept ? factor * pair.y : 0.0f;
    } else {
      first[i] = kept ? params.gain * (exp_accurate(params.scale * (y[i] - m) + t) + params.eps) : 0.0f;
      if (SIDES == 1u) {
        second[i] = kept ? params.gain * (exp_accurate(params.scale * (-y[i] - m) + t) + params.eps) : 0.0f;
      }
    }
  }
  float* const to = out + place.row * params.r + place.col;
  store_numbers<WIDE>(to, first);
  if (SIDES != 0u) { store_numbers<WIDE>(to + params.p, second); }
}
