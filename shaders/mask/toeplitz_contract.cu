// out[row, c] = prior[row, c] + sum over features l of q[row, first + l] x[row, channel of (l, c)], channels laid out as
// toeplitz_lift.cu does; the last column takes the features' own channels. q [b, h, n, r], x [b, h, u, n, y], prior and out [b,
// h, n, w]. One thread per row and four columns; the last thread of a row adds up the last column.
__device__ inline float dot(float4 a, float4 b) { return (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w); }

extern "C" __global__ void __launch_bounds__(THREADS) toeplitz_contract(
    Params params, const float* __restrict__ q, const float* __restrict__ x, const float* __restrict__ prior,
    float* __restrict__ out) {
  const u32 values = params.w - 1u;
  const u32 value_quads = divided_up(values, 4u);
  const u32 per_row = value_quads + 1u;
  const size_t per_head = size_t(params.n) * per_row;
  const u32 blocks_per_head = u32((per_head + THREADS - 1u) / THREADS);
  const u32 head = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= per_head) { return; }
  const u32 row = u32(item / per_row);
  const u32 column = 4u * u32(item % per_row);
  const u32 width = 4u * value_quads;
  const float* queries = q + (size_t(head) * params.n + row) * params.r + params.first;
  const u32 features = min(params.features, params.r - min(params.r, params.first));
  // Blocks of channels hold all rows.
  const auto channels = [&](u32 channel) {
    const size_t line = (size_t(head) * params.u + channel / params.y) * params.n + row;
    return *reinterpret_cast<const float4*>(x + line * params.y + channel % params.y);
  };
  const size_t from = (size_t(head) * params.n + row) * params.w;
  if (column == width) {
    float sum = 0.0f;
    for (u32 l = 0u; l < features; l += 4u) {
      const u32 left = features - l;
      // Behind the last feature stand zeros or the next slice's place.
      const float4 four = make_float4(queries[l], left > 1u ? queries[l + 1u] : 0.0f, left > 2u ? queries[l + 2u] : 0.0f,
                                      left > 3u ? queries[l + 3u] : 0.0f);
      sum += dot(four, channels(params.features * width + l));
    }
    out[from + values] = HAS_PRIOR ? sum + prior[from + values] : sum;
    return;
  }
  float4 sum = float4();
  for (u32 l = 0u; l < features; l++) { add_scaled(sum, queries[l], channels(l * width + column)); }
  const float columns[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (u32 c = 0u; c < 4u; c++) {
    if (column + c < values) { out[from + column + c] = HAS_PRIOR ? columns[c] + prior[from + column + c] : columns[c]; }
  }
}
