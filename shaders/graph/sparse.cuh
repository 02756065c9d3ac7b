// Rows of a sparse operator whose columns name rows of channels: one channel a thread, or four where FOUR says so.
typedef Words<FOUR>::Type Value;
constexpr u32 LANES = FOUR ? 4u : 1u;

// Places of the lists that belong to a node. What is past the end of the lists is left out; nothing is read there.
struct Edges {
  u32 first, last;
};

__device__ inline Edges edges_of(const u32* starts, u32 node, u32 edges) {
  const u32 last = min(starts[size_t(node) + 1u], edges);
  return {min(starts[node], last), last};
}

// The sum over every `step`th edge of weight times the source's channel: rows of `x` begin `apart` values from each other.
// Columns that are no node give nothing. Four edges' columns are read before their sources, so that loads do not wait for each
// other one by one.
__device__ inline Value gathered(
    const Value* x, u32 apart, Edges edges, u32 step, u32 nodes, const u32* columns, const float* weights) {
  constexpr u32 AHEAD = 4u;
  Value sum = filled<Value>(0.0f);
  u32 place = edges.first;
  u32 left = edges.last - edges.first;
  while (left > (AHEAD - 1u) * step) {
    u32 column[AHEAD];
    Value source[AHEAD];
#pragma unroll
    for (u32 i = 0u; i < AHEAD; i++) { column[i] = columns[place + i * step]; }
#pragma unroll
    for (u32 i = 0u; i < AHEAD; i++) {
      source[i] = column[i] < nodes ? x[size_t(column[i]) * apart] : filled<Value>(0.0f);
    }
#pragma unroll
    for (u32 i = 0u; i < AHEAD; i++) { sum = sum + (weights ? weights[place + i * step] : 1.0f) * source[i]; }
    place += AHEAD * step;
    left -= min(left, AHEAD * step);
  }
  while (left > 0u) {
    const u32 column = columns[place];
    if (column < nodes) { sum = sum + (weights ? weights[place] : 1.0f) * x[size_t(column) * apart]; }
    place += step;
    left -= min(left, step);
  }
  return sum;
}

// The sum of a value over the lanes of a warp.
__device__ inline float lanes_sum(float x) { return warp_sum(x); }
__device__ inline float4 lanes_sum(float4 x) {
  return make_float4(warp_sum(x.x), warp_sum(x.y), warp_sum(x.z), warp_sum(x.w));
}
