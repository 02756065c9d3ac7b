// Joins the states of rows over two sets of keys, or ends rows (see attention_merge.rs), one number per thread.
// left, right [b, h, n, s], s = e + 2; query_mask bytes [b, h, n]; out [b, h, n, p]; log_sum [b, h, n].

// Largest exponent of a row without keys in attention_rows; real ones stay within +-1e38.
constexpr float NO_KEY = -2.0e38f;
constexpr float EMPTY = -3.40282347e38f;

extern "C" __global__ void __launch_bounds__(THREADS) attention_merge(
    Params params, const float* __restrict__ left, const float* __restrict__ right, const u8* __restrict__ query_mask,
    float* __restrict__ out, float* __restrict__ log_sum) {
  const size_t at = thread_number();
  if (at >= size_t(params.b) * params.h * params.n * params.p) { return; }
  const Place place = place_of(at, params.p);
  const u32 e = params.s - 2u;
  const float* const line = left + place.row * params.s;
  float shift = line[e];
  float total = line[e + 1u];
  float x = line[place.col];
  if (HAS_RIGHT) {
    const float* const other = right + place.row * params.s;
    const float top = fmaxf(shift, other[e]);
    const float keep_left = exp_accurate(shift - top);
    const float keep_right = exp_accurate(other[e] - top);
    shift = top;
    total = total * keep_left + other[e + 1u] * keep_right;
    x = x * keep_left + other[place.col] * keep_right;
  }
  if (HAS_QUERY_MASK) {
    const Place row = place_of(place.row, params.n);
    const u32 head = u32(row.row);
    const size_t flag = size_t(head / params.h) * params.query_mask_b + size_t(head % params.h) * params.query_mask_h + row.col;
    if (query_mask[flag] == 0u) {
      shift = NO_KEY;
      total = 0.0f;
      x = 0.0f;
    }
  }
  if (params.p < params.s) {
    // The sum of a row with keys is at least 1.
    x = NORMALISE == 0u ? x / fmaxf(total, 1.0f) : x * exp_accurate(shift);
  } else if (place.col == e) {
    x = shift;
  } else if (place.col == e + 1u) {
    x = total;
  }
  out[at] = x;
  if (HAS_LOG_SUM && place.col == 0u) { log_sum[place.row] = total > 0.0f ? shift + logf(fmaxf(total, 1.0f)) : EMPTY; }
}
