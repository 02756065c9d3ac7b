// What follows the library's inverse transforms, in place: out[b, h, o, l, a] times 1 / L. Four words to a thread, a block's width apart.
extern "C" __global__ void __launch_bounds__(THREADS) fft(Params params, const float* __restrict__ x, float* __restrict__ out) {
  const size_t all = size_t(params.b) * params.h * params.o * params.l * params.a;
  const float scale = 1.0f / float(LENGTH == 0u ? params.l : LENGTH);
  for (u32 part = 0u; part < 4u; part++) {
    const size_t at = (size_t(blockIdx.x) * 4u + part) * THREADS + threadIdx.x;
    if (at < all) { out[at] *= scale; }
  }
}
