// y[i] = sum over the entries of row i of weight x[column] + prev[i]; x [b, h, n, c], prev, y [b, h, m, c]. All heads share the
// lists; entries past them and columns that are no row give nothing. A thread takes a channel of a row, or four.
extern "C" __global__ void __launch_bounds__(THREADS) tree_gather(
    Params params, const u32* __restrict__ starts, const u32* __restrict__ columns, const float* __restrict__ weights,
    const float* __restrict__ x, const float* __restrict__ prev, float* __restrict__ y) {
  const u32 channels = params.c / LANES;
  const size_t items = size_t(params.m) * channels;
  const u32 blocks_per_head = u32((items + THREADS - 1u) / THREADS);
  const u32 batch = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= items) { return; }
  const u32 row = u32(item / channels);
  const u32 channel = u32(item % channels);
  const Value* source = reinterpret_cast<const Value*>(x) + size_t(batch) * params.n * channels + channel;
  Value sum = gathered(
      source, channels, edges_of(starts, row, params.z), 1u, params.n, columns, HAS_WEIGHTS ? weights : nullptr);
  const size_t at = (size_t(batch) * params.m + row) * channels + channel;
  if (HAS_PREV) { sum = sum + reinterpret_cast<const Value*>(prev)[at]; }
  reinterpret_cast<Value*>(y)[at] = sum;
}
