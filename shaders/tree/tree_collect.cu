// What pieces of a forest send up by themselves and add at their bottoms: sums[own row] = (sum of w[s, 0] x, sum of w[s, 1] x +
// w[s, 2] x'), s the spots of a piece, x the first half and x' the second of rows of pairs. pieces [g, 4], turns [r], links [n,
// 2], weights [k, t], x [b, h, n, w], sums [b, h, m, e]. A thread takes a channel of one piece, or four.
extern "C" __global__ void __launch_bounds__(THREADS) tree_collect(
    Params params, const u32* __restrict__ pieces, const u32* __restrict__ turns, const u32* __restrict__ links,
    const float* __restrict__ weights, const float* __restrict__ x, float* __restrict__ sums) {
  const u32 channels = params.e / (2u * LANES);
  const u32 width = params.w / LANES;
  const Item item = item_of(params.m, channels);
  if (!item.there) { return; }
  const u32 piece = item.row;
  const Value* source = reinterpret_cast<const Value*>(x) + size_t(item.head) * params.n * width + item.col;
  const Members members = members_of(params, pieces, piece);
  Value up = filled<Value>(0.0f);
  Value at_bottom = up;
#pragma unroll 4
  for (u32 member = 0u; member < members.count; member++) {
    const u32 s = spot_of(params, turns, members, member);
    if (s >= params.k) { break; }
    const Value* row = source + size_t(row_of(params, links, s)) * width;
    const float* weight = weights + size_t(s) * params.t;
    const Value value = row[0];
    up = up + weight[0] * value;
    at_bottom = at_bottom + weight[1] * value;
    if (PAIRED > 0u) { at_bottom = at_bottom + weight[2] * row[channels]; }
  }
  const u32 own = pieces[4u * size_t(piece) + 2u];
  if (own >= params.m) { return; }
  Value* place = reinterpret_cast<Value*>(sums) + (size_t(item.head) * params.m + own) * 2u * channels + item.col;
  place[0] = up;
  place[channels] = at_bottom;
}
