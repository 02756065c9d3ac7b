// out[i, c] = sum[i, c] + sum over l of q[i, first + l] y[i, l p + c]; q [b, h, n, r], y [b, h, n, s], sum and out [b, h, n, p].
// One thread per element.
extern "C" __global__ void __launch_bounds__(THREADS) contract_rows(
    Params params, const float* __restrict__ q, const float* __restrict__ y, const float* __restrict__ sum,
    float* __restrict__ out) {
  const Item item = item_of(params.n, params.p);
  if (!item.there) { return; }
  const size_t token = size_t(item.head) * params.n + item.row;
  const float* features = q + token * params.r + params.first;
  const float* channels = y + token * params.s + item.col;
  float total = HAS_SUM ? sum[item.at] : 0.0f;
  const u32 count = params.s / params.p;
#pragma unroll 4
  for (u32 l = 0u; l < count; l++) { total += features[l] * channels[size_t(l) * params.p]; }
  out[item.at] = total;
}
