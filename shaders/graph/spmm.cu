// y[i] = alpha sum over the edges of i of weight x[column] + diagonal[i] x[i] + beta prev[i]; x, prev, y [b, h, n, c], all heads
// share the operator. A thread takes a channel of a node, or four; where SPLIT, the 32 lanes of a warp share a node's edges for
// that.
extern "C" __global__ void __launch_bounds__(THREADS) spmm(
    Params params, const u32* __restrict__ starts, const u32* __restrict__ columns, const float* __restrict__ weights,
    const float* __restrict__ diagonal, const float* __restrict__ x, const float* __restrict__ prev, float* __restrict__ y) {
  constexpr u32 SHARING = SPLIT ? WARP : 1u;
  const u32 channels = params.c / LANES;
  const Item item = shared_item_of<SHARING>(params.n, channels);
  // A warp is one item's where it shares, so that none of its lanes leaves the others.
  if (!item.there) { return; }
  const u32 node = item.row;
  const Value* source = reinterpret_cast<const Value*>(x) + size_t(item.head) * params.n * channels + item.col;
  Edges edges = edges_of(starts, node, params.z);
  if (SPLIT) { edges.first += min(threadIdx.x % WARP, edges.last - edges.first); }
  Value sum = gathered(source, channels, edges, SHARING, params.n, columns, HAS_WEIGHTS ? weights : nullptr);
  if (SPLIT) {
    sum = lanes_sum(sum);
    if (threadIdx.x % WARP != 0u) { return; }
  }
  Value value = params.alpha * sum;
  if (HAS_DIAGONAL) { value = value + diagonal[node] * source[size_t(node) * channels]; }
  if (HAS_PREV) { value = value + params.beta * reinterpret_cast<const Value*>(prev)[item.at]; }
  reinterpret_cast<Value*>(y)[item.at] = value;
}
