// out[j, q] = (x[j, q] - shift[q] - mean[j]) / sqrt(variance[j] + ew) scale + constant, one number per thread.
// x, out [b, h, m, r], shift the first column of [b, h, r, w], moments [b, h, m, 2] = (mean, variance).
extern "C" __global__ void __launch_bounds__(THREADS) whiten_rows(
    Params params, const float* __restrict__ x, const float* __restrict__ shift, const float* __restrict__ moments,
    float* __restrict__ out) {
  const size_t at = thread_number();
  if (at >= size_t(params.b) * params.h * params.m * params.r) { return; }
  const Place place = place_of(at, params.r);
  float value = x[at];
  if (HAS_SHIFT) {
    const size_t head = place_of(place.row, params.m).row;
    value -= shift[(head * params.r + place.col) * params.w];
  }
  if (CENTRED == 1u) { value -= moments[place.row * 2u]; }
  const float deviation = sqrtf(fmaxf(moments[place.row * 2u + 1u], 0.0f) + params.ew);
  out[at] = value / deviation * params.scale + params.constant;
}
