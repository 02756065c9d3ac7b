// What follows the library's product, in place: out[n, p] += beta residual[n, p] + 1 bias^T + gamma I, where `out` holds alpha op(A) op(W).
// Four neighbouring elements of all heads' rows to a thread, a block's width apart.
extern "C" __global__ void __launch_bounds__(THREADS) matmul(
    Params params, const float* __restrict__ a, const float* __restrict__ w, const float* __restrict__ residual,
    const float* __restrict__ bias, float* __restrict__ out) {
  const size_t head_size = size_t(params.n) * params.p;
  const size_t all = head_size * params.b * params.h;
  for (u32 part = 0u; part < 4u; part++) {
    const size_t at = (size_t(blockIdx.x) * 4u + part) * THREADS + threadIdx.x;
    if (at >= all) { return; }
    const size_t head = at / head_size;
    const size_t place = at - head * head_size;
    const u32 row = u32(place / params.p);
    const u32 col = u32(place - size_t(row) * params.p);
    const u32 batch = u32(head / params.h);
    const u32 number = u32(head - size_t(batch) * params.h);
    float sum = out[at];
    if (HAS_RESIDUAL) {
      sum += params.beta * residual[size_t(batch) * params.residual_b + size_t(number) * params.residual_h + place];
    }
    if (HAS_BIAS) { sum += bias[size_t(batch) * params.bias_b + size_t(number) * params.bias_h + col]; }
    if (row == col) { sum += params.identity; }
    out[at] = sum;
  }
}
