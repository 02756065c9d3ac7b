// y[i] = sum over the entries of row i of weight x[column] + prev[i]; x [b, h, n, c], prev, y [b, h, m, c]. All heads share the
// lists; entries past them and columns that are no row give nothing. A thread takes a channel of a row, or four.
extern "C" __global__ void __launch_bounds__(THREADS) tree_gather(
    Params params, const u32* __restrict__ starts, const u32* __restrict__ columns, const float* __restrict__ weights,
    const float* __restrict__ x, const float* __restrict__ prev, float* __restrict__ y) {
  const u32 channels = params.c / LANES;
  const Item item = item_of(params.m, channels);
  if (!item.there) { return; }
  const u32 row = item.row;
  const Value* source = reinterpret_cast<const Value*>(x) + size_t(item.head) * params.n * channels + item.col;
  Value sum = gathered(
      source, channels, edges_of(starts, row, params.z), 1u, params.n, columns, HAS_WEIGHTS ? weights : nullptr);
  if (HAS_PREV) { sum = sum + reinterpret_cast<const Value*>(prev)[item.at]; }
  reinterpret_cast<Value*>(y)[item.at] = sum;
}
