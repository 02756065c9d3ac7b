// Four independent chains s <- e^-s per thread, which all run into 0.567. x, out [b, h, n].
extern "C" __global__ void __launch_bounds__(THREADS) probe_exp(
    Params params, const float* __restrict__ x, float* __restrict__ out) {
  const size_t at = size_t(blockIdx.x) * THREADS + threadIdx.x;
  if (at >= size_t(params.b) * params.h * params.n) { return; }
  float s[4];
  for (u32 c = 0u; c < 4u; c++) { s[c] = x[at] + 0.25f * float(c); }
  for (u32 round = 0u; round < params.rounds; round++) {
#pragma unroll
    for (u32 c = 0u; c < 4u; c++) { s[c] = exp_accurate(-s[c]); }
  }
  out[at] = (s[0] + s[1]) + (s[2] + s[3]);
}
