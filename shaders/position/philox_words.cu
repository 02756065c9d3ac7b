// The words [n, 4] of counters [n, 4] under one key, and the numbers [n, 4] made of them. One thread per counter.
extern "C" __global__ void __launch_bounds__(THREADS) philox_words(
    Params params, const u32* __restrict__ counters, const u32* __restrict__ table, u32* __restrict__ words,
    float* __restrict__ out) {
  const size_t i = size_t(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= params.n) { return; }
  const u32* own = counters + 4u * i;
  const uint4 four = philox(make_uint4(own[0], own[1], own[2], own[3]), params.seed_low, params.seed_high);
  const float4 made = numbers_of(table, four);
  words[4u * i] = four.x;
  words[4u * i + 1u] = four.y;
  words[4u * i + 2u] = four.z;
  words[4u * i + 3u] = four.w;
  out[4u * i] = made.x;
  out[4u * i + 1u] = made.y;
  out[4u * i + 2u] = made.z;
  out[4u * i + 3u] = made.w;
}
