// out[i, c] = sum[i, c] + sum over l of q[i, first + l] y[i, l p + c]; q [b, h, n, r], y [b, h, n, s], sum and out [b, h, n, p].
// One thread per element.
extern "C" __global__ void __launch_bounds__(THREADS) contract_rows(
    Params params, const float* __restrict__ q, const float* __restrict__ y, const float* __restrict__ sum,
    float* __restrict__ out) {
  const size_t size = size_t(params.n) * params.p;
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 batch = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= size) { return; }
  const size_t token = size_t(batch) * params.n + item / params.p;
  const float* features = q + token * params.r + params.first;
  const float* channels = y + token * params.s + item % params.p;
  float total = HAS_SUM ? sum[batch * size + item] : 0.0f;
  const u32 count = params.s / params.p;
#pragma unroll 4
  for (u32 l = 0u; l < count; l++) { total += features[l] * channels[size_t(l) * params.p]; }
  out[batch * size + item] = total;
}
