// Ten independent chains of multiply-adds for each number, sixteen steps a round; a thread takes PLACES numbers that lie THREADS
// apart: one, whose chains hide each other's latency, or six, as many sums as the tiles of products have. x, out [b, h, n].
constexpr u32 CHAINS = 10u;

extern "C" __global__ void __launch_bounds__(THREADS) probe_fma(
    Params params, const float* __restrict__ x, float* __restrict__ out) {
  const size_t all = size_t(params.b) * params.h * params.n;
  const size_t first = size_t(blockIdx.x) * PLACES * THREADS + threadIdx.x;
  float s[PLACES][CHAINS];
#pragma unroll
  for (u32 k = 0u; k < PLACES; k++) {
    const size_t at = first + k * THREADS;
    const float start = at < all ? x[at] : 0.0f;
#pragma unroll
    for (u32 c = 0u; c < CHAINS; c++) { s[k][c] = start + 0.125f * float(c); }
  }
  for (u32 round = 0u; round < params.rounds; round++) {
#pragma unroll
    for (u32 step = 0u; step < 16u; step++) {
#pragma unroll
      for (u32 k = 0u; k < PLACES; k++) {
#pragma unroll
        for (u32 c = 0u; c < CHAINS; c++) { s[k][c] = s[k][c] * params.factor + params.addend; }
      }
    }
  }
#pragma unroll
  for (u32 k = 0u; k < PLACES; k++) {
    const size_t at = first + k * THREADS;
    const float* const c = s[k];
    if (at < all) { out[at] = ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7])) + (c[8] + c[9]); }
  }
}
