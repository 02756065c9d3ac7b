// y = scale u[i, c]; out = y + 1 or e^y (ELU + 1), max(y, 0) + eps (ReLU); 0 where the row is masked or in no segment
// (selected, not multiplied: such rows may hold anything). u, out [b, h, n, p], key_mask bytes [b, h, n], starts [b, h, s].
// One number or four of a row per thread.
constexpr u32 WIDE = FOURS ? 4u : 1u;

extern "C" __global__ void __launch_bounds__(THREADS) feature_pointwise(
    Params params, const float* __restrict__ u, const u8* __restrict__ key_mask, const u32* __restrict__ starts,
    float* __restrict__ out) {
  const size_t at = thread_number() * WIDE;
  if (at >= size_t(params.b) * params.h * params.n * params.p) { return; }
  bool kept = true;
  if (HAS_KEY_MASK || HAS_STARTS) {
    const Place row = place_of(place_of(at, params.p).row, params.n);
    const u32 head = u32(row.row);
    if (HAS_KEY_MASK) { kept = row_is_kept(key_mask, params.key_mask_b, params.key_mask_h, head, params.h, row.col); }
    if (HAS_STARTS) {
      const u32* const line = starts + size_t(head / params.h) * params.starts_b + size_t(head % params.h) * params.starts_h;
      kept = kept && row.col >= line[0] && row.col < line[params.s - 1u];
    }
  }
  float y[WIDE];
  load_numbers<WIDE>(y, u + at);
#pragma unroll
  for (u32 i = 0u; i < WIDE; i++) {
    const float x = params.scale * y[i];
    const float value = MAP == 0u ? (x > 0.0f ? x + 1.0f : exp_accurate(x)) : fmaxf(x, 0.0f) + params.eps;
    y[i] = kept ? value : 0.0f;
  }
  store_numbers<WIDE>(out + at, y);
}
