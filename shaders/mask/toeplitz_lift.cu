// out[row, channel] = k[row, l] [v, 1][row, c], in blocks of y channels that each hold all rows: for each of `features` features
// l from `first` on the channels of v, rounded up to whole fours, then the features themselves. Rows that key_mask leaves out are
// 0. k [b, h, n, r], v [b, h, n, e], out [b, h, u, n, y]. One thread per four channels.
__device__ inline float key_of(const float* row, u32 feature, u32 end) { return feature < end ? row[feature] : 0.0f; }

extern "C" __global__ void __launch_bounds__(THREADS) toeplitz_lift(
    Params params, const float* __restrict__ k, const float* __restrict__ v, const u8* __restrict__ key_mask,
    float* __restrict__ out) {
  const u32 quads = params.y / 4u;
  const size_t per_head = size_t(params.u) * params.n * quads;
  const u32 blocks_per_head = u32((per_head + THREADS - 1u) / THREADS);
  const u32 head = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= per_head) { return; }
  const size_t line = item / quads;
  const u32 block = u32(line / params.n);
  const u32 row = u32(line % params.n);
  const u32 channel = block * params.y + 4u * u32(item % quads);
  bool kept = true;
  if (HAS_KEY_MASK) {
    const size_t of_head = size_t(head / params.h) * params.key_mask_b + size_t(head % params.h) * params.key_mask_h;
    kept = key_mask[of_head + row] != 0u;
  }
  float4 z = float4();
  if (kept) {
    const u32 value_channels = divided_up(params.e, 4u) * 4u;
    const u32 ones = params.features * value_channels;
    const float* keys = k + (size_t(head) * params.n + row) * params.r;
    const u32 end = min(params.r, params.first + params.features);
    if (channel >= ones) {
      const u32 l = params.first + channel - ones;
      z = make_float4(key_of(keys, l, end), key_of(keys, l + 1u, end), key_of(keys, l + 2u, end), key_of(keys, l + 3u, end));
    } else {
      const float key = key_of(keys, params.first + channel / value_channels, end);
      const u32 c = channel % value_channels;
      const float* values = v + (size_t(head) * params.n + row) * params.e + c;
      const u32 left = params.e - c;
      z = make_float4(key * values[0], left > 1u ? key * values[1] : 0.0f, left > 2u ? key * values[2] : 0.0f,
                      left > 3u ? key * values[3] : 0.0f);
    }
  }
  reinterpret_cast<float4*>(out)[head * per_head + item] = z;
}
