// Random numbers out [c, u, r] by place: four lanes of one channel and position from one counter, one thread each. Where WHOLE,
// rows are whole fours and are stored as such.
extern "C" __global__ void __launch_bounds__(THREADS) counter_noise(
    Params params, const u32* __restrict__ table, float* __restrict__ out) {
  const u32 quads = divided_up(params.r, 4u);
  const size_t item = size_t(blockIdx.x) * THREADS + threadIdx.x;
  if (item >= size_t(params.c) * params.u * quads) { return; }
  const u32 quad = u32(item % quads);
  const size_t row = item / quads;
  const u32 place = u32(row % params.u);
  const u32 channel = params.channel + u32(row / params.u);
  const u32 i2 = params.first_2 + place % params.side_2;
  const u32 i1 = params.first_1 + place / params.side_2 % params.side_1;
  const u32 i0 = params.first_0 + place / (params.side_2 * params.side_1);
  const u32 index = (i0 << params.shift_0) | (i1 << params.shift_1) | i2;
  const bool is_last = params.last_purpose > 0u && place + 1u == params.u;
  const u32 purpose = is_last ? params.last_purpose : params.purpose;
  const uint4 counter = make_uint4(index, channel | (quad << 20), params.step, purpose);
  const float4 four = numbers_of(table, philox(counter, params.seed_low, params.seed_high));
  if (WHOLE) {
    reinterpret_cast<float4*>(out)[item] = four;
    return;
  }
  float* to = out + row * params.r + 4u * quad;
  const u32 lanes = params.r - 4u * quad;
  to[0] = four.x;
  if (lanes > 1u) { to[1] = four.y; }
  if (lanes > 2u) { to[2] = four.z; }
  if (lanes > 3u) { to[3] = four.w; }
}
