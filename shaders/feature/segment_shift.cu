// out[i] = (m, t - maxima[segment of i], at least LOWEST) of rows[i] = (m, t); (0, LEFT_OUT) where the row is masked or in no
// segment (selected: such rows may hold anything). rows, out [b, h, n, 2], maxima [b, h, g], key_mask bytes [b, h, n], starts [b,
// h, s]. One row per thread.
constexpr float LOWEST = -500.0f;
constexpr float LEFT_OUT = -1000.0f;

extern "C" __global__ void __launch_bounds__(THREADS) segment_shift(
    Params params, const float* __restrict__ rows, const float* __restrict__ maxima, const u8* __restrict__ key_mask,
    const u32* __restrict__ starts, float* __restrict__ out) {
  const size_t at = thread_number();
  if (at >= size_t(params.b) * params.h * params.n) { return; }
  const Place place = place_of(at, params.n);
  const u32 head = u32(place.row);
  const u32 b = head / params.h;
  const u32 h = head % params.h;
  const u32 row = place.col;
  bool kept = !HAS_KEY_MASK || row_is_kept(key_mask, params.key_mask_b, params.key_mask_h, head, params.h, row);
  u32 segment = 0u;
  if (HAS_STARTS) {
    // The last boundary that is not beyond the row; of equal ones the last, so that empty segments own nothing.
    const u32* const line = starts + size_t(b) * params.starts_b + size_t(h) * params.starts_h;
    u32 low = 0u;
    u32 high = params.s; // boundaries before `low` are not beyond, those from `high` on are
    while (low < high) {
      const u32 middle = low + (high - low) / 2u;
      if (line[middle] <= row) { low = middle + 1u; } else { high = middle; }
    }
    kept = kept && low > 0u && low < params.s;
    segment = max(low, 1u) - 1u;
  }
  const float m = rows[at * 2u];
  float t = rows[at * 2u + 1u];
  if (HAS_MAXIMA && kept) { t -= maxima[size_t(b) * params.maxima_b + size_t(h) * params.maxima_h + segment]; }
  out[at * 2u] = kept ? m : 0.0f;
  out[at * 2u + 1u] = kept ? fmaxf(t, LOWEST) : LEFT_OUT;
}
