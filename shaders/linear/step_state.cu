// out [b, h, r, w] = [S[l], z[l]] from a state [b, h, s] that holds r x (w - 1) products S, then r sums z, and whatever comes
// after. One thread per element.
extern "C" __global__ void __launch_bounds__(THREADS) step_state(
    Params params, const float* __restrict__ state, float* __restrict__ out) {
  const size_t size = size_t(params.r) * params.w;
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 batch = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= size) { return; }
  const u32 e = params.w - 1u;
  const size_t row = item / params.w;
  const size_t col = item % params.w;
  const size_t place = col == e ? size_t(params.r) * e + row : row * e + col;
  out[batch * size + item] = state[size_t(batch) * params.s + place];
}
