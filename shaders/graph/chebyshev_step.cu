// A step of the Chebyshev recurrence on a sparse operator: next = 2 S cur - prev (S cur without prev, cur itself for term 0),
// sum_out = sum_in + coefficient next. cur [b, h, n, c], prev [b, h, n, p], sum_out [b, h, n, q] may be wider than the m channels
// of the step, which begin at cur_from, prev_from and sum_from; next, sum_in [b, h, n, m]. weights: z of edges, and the diagonal
// behind them, if any. A thread takes a channel of a node, or four; where SPLIT, the 32 lanes of a warp share a node's edges for
// that.
extern "C" __global__ void __launch_bounds__(THREADS) chebyshev_step(
    Params params, const u32* __restrict__ starts, const u32* __restrict__ columns, const float* __restrict__ weights,
    const float* __restrict__ coefficients, const float* __restrict__ cur, const float* __restrict__ prev,
    const float* __restrict__ sum_in, float* __restrict__ next, float* __restrict__ sum_out) {
  constexpr u32 SHARING = SPLIT ? WARP : 1u;
  const u32 channels = params.m / LANES;
  const Item item = shared_item_of<SHARING>(params.n, channels);
  // A warp is one item's where it shares, so that none of its lanes leaves the others.
  if (!item.there) { return; }
  const u32 node = item.row;
  const u32 apart = params.c / LANES;
  const Value* source =
      reinterpret_cast<const Value*>(cur + size_t(item.head) * params.n * params.c + params.cur_from) + item.col;
  Edges edges = edges_of(starts, node, params.z);
  if (SPLIT) { edges.first += min(threadIdx.x % WARP, edges.last - edges.first); }
  Value value = filled<Value>(0.0f);
  // Term 0 is cur itself, whatever its neighbours hold.
  if (params.term != 0u) {
    value = gathered(source, apart, edges, SHARING, params.n, columns, HAS_WEIGHTS ? weights : nullptr);
  }
  if (SPLIT) {
    value = lanes_sum(value);
    if (threadIdx.x % WARP != 0u) { return; }
  }
  const size_t row = size_t(item.head) * params.n + node;
  const Value here = source[size_t(node) * apart];
  if (HAS_WEIGHTS) {
    if (params.v > params.z) { value = value + weights[size_t(params.z) + node] * here; }
  }
  if (HAS_PREV) {
    value = 2.0f * value - reinterpret_cast<const Value*>(prev + row * params.p + params.prev_from)[item.col];
  }
  if (params.term == 0u) { value = here; }
  if (HAS_NEXT) { reinterpret_cast<Value*>(next)[item.at] = value; }
  // Where no sum was handed over it begins with the term before, if there is one.
  Value sum = filled<Value>(0.0f);
  if (HAS_SUM_IN) {
    sum = reinterpret_cast<const Value*>(sum_in)[item.at];
  } else if (params.term != 0u) {
    sum = coefficients[params.term - 1u] * here;
  }
  reinterpret_cast<Value*>(sum_out + row * params.q + params.sum_from)[item.col] = sum + coefficients[params.term] * value;
}
