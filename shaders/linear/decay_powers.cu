// powers [heads, t] = decay[h]^t, one thread per power: binary powers in pairs of floats, high and low part, so that the error
// does not grow with the exponent.
__device__ inline float2 times(float2 a, float2 b) {
  const float product = a.x * b.x;
  // What the product lost by rounding, exactly.
  const float error = fmaf(a.x, b.x, -product);
  const float low = error + (a.x * b.y + a.y * b.x);
  const float sum = product + low;
  return make_float2(sum, low - (sum - product));
}

extern "C" __global__ void __launch_bounds__(THREADS) decay_powers(
    Params params, const float* __restrict__ decay, float* __restrict__ powers) {
  const Item item = item_of(params.heads, params.t);
  if (!item.there) { return; }
  float2 base = make_float2(decay[item.row], 0.0f);
  float2 power = make_float2(1.0f, 0.0f);
  for (u32 left = item.col; left != 0u; left >>= 1u) {
    if ((left & 1u) != 0u) { power = times(power, base); }
    base = times(base, base);
  }
  powers[item.at] = power.x;
}
