// Both sweeps within pieces of a forest: up, S = sum of what hangs below, then down, G = q G(parent) + (1 - q^2)(x + S); out =
// weight G + prev, or the pairs (G, S). pieces [g, 4], turns [r], links [n, 2], factors [n, 2]: q and 1 - q^2; x, prev, out [b,
// h, n, w], above [b, h, m, e] the pairs (G, S) of pieces. A thread takes a channel of one piece, or four: from the last member
// to the first it hands sums up, the result's memory holding what has come together at a member, and then from the first to the
// last it hands down.
constexpr u32 BACK = 65535u;
constexpr u32 PARTIAL = 65536u;
constexpr u32 FIRST = 131072u;
constexpr u32 BOTTOM = 262144u;
constexpr u32 HELD = 524288u;

extern "C" __global__ void __launch_bounds__(THREADS) tree_spread(
    Params params, const u32* __restrict__ pieces, const u32* __restrict__ turns, const u32* __restrict__ links,
    const float* __restrict__ factors, const float* __restrict__ x, const float* __restrict__ above,
    const float* __restrict__ prev, float* __restrict__ out) {
  const u32 width = params.w / LANES;
  const u32 channels = width / (1u + PAIRED);
  const Item item = item_of(params.g, channels);
  if (!item.there) { return; }
  const u32 piece = item.row;
  const size_t from = size_t(item.head) * params.n * width + item.col;
  const Value* source = reinterpret_cast<const Value*>(x) + from;
  const Value* added = reinterpret_cast<const Value*>(prev) + (HAS_PREV ? from : 0u);
  Value* place = reinterpret_cast<Value*>(out) + from;
  // Sums stand in the second half of a row of pairs.
  Value* sums = place + PAIRED * channels;
  const Members members = members_of(params, pieces, piece);
  Value given = filled<Value>(0.0f); // G at the point that the piece hangs from
  Value hung = given; // S of what hangs from its bottom
  if (HAS_ABOVE) {
    const Value* rows = reinterpret_cast<const Value*>(above) + size_t(item.head) * params.m * 2u * channels + item.col;
    const u32 own = pieces[4u * size_t(piece) + 2u];
    const u32 parent = pieces[4u * size_t(piece) + 3u];
    if (parent < params.m) { given = rows[size_t(parent) * 2u * channels]; }
    if (own < params.m) { hung = rows[size_t(own) * 2u * channels + channels]; }
  }
  Value carry = filled<Value>(0.0f);
  for (u32 left = members.count; left > 0u; left--) {
    const u32 member = left - 1u;
    const u32 s = spot_of(params, turns, members, member);
    const size_t row = size_t(row_of(params, links, s)) * width;
    const u32 link = links[2u * size_t(s) + 1u];
    const u32 back = min(link & BACK, member);
    Value sum = carry;
    if ((link & PARTIAL) != 0u) { sum = sum + sums[row]; }
    if ((link & BOTTOM) != 0u) { sum = sum + hung; }
    const Value own = source[row];
    const float q = factors[2u * size_t(s)];
    // A single node sends q (x + sum), a piece what it has collected and q times what came to its bottom.
    if (PAIRED == 0u) { sum = sum + own; }
    // Where nothing hangs from a node its sum is x, which need not be stored.
    if (PAIRED > 0u || (link & HELD) != 0u) { sums[row] = sum; }
    Value sent = q * sum;
    if (PAIRED > 0u) { sent = sent + own; }
    carry = back == 1u ? sent : filled<Value>(0.0f);
    if (back > 1u) {
      const size_t parent = size_t(row_of(params, links, spot_of(params, turns, members, member - back))) * width;
      if ((link & FIRST) == 0u) { sent = sent + sums[parent]; }
      sums[parent] = sent;
    }
  }
  Value last = filled<Value>(0.0f);
  for (u32 member = 0u; member < members.count; member++) {
    const u32 s = spot_of(params, turns, members, member);
    const size_t row = size_t(row_of(params, links, s)) * width;
    const u32 link = links[2u * size_t(s) + 1u];
    const u32 back = min(link & BACK, member);
    Value parent = given;
    if (back == 1u) { parent = last; }
    if (back > 1u) { parent = place[size_t(row_of(params, links, spot_of(params, turns, members, member - back))) * width]; }
    const Value sum = PAIRED > 0u || (link & HELD) != 0u ? sums[row] : source[row];
    Value value = factors[2u * size_t(s)] * parent + factors[2u * size_t(s) + 1u] * sum;
    if (PAIRED > 0u) { value = value + source[row + channels]; }
    last = value;
    if (SUMMED > 0u && (link & PARTIAL) == 0u) {
      value = params.weight * value;
      if (HAS_PREV) { value = value + added[row]; }
    }
    place[row] = value;
  }
  // What others than the next member read is weighed when all have read it.
  if (SUMMED > 0u) {
    for (u32 member = 0u; member < members.count; member++) {
      const u32 s = spot_of(params, turns, members, member);
      if ((links[2u * size_t(s) + 1u] & PARTIAL) != 0u) {
        const size_t row = size_t(row_of(params, links, s)) * width;
        Value value = params.weight * place[row];
        if (HAS_PREV) { value = value + added[row]; }
        place[row] = value;
      }
    }
  }
}
