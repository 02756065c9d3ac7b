// Mean and sum of squared deviations of every key's kernel values exp(x[i, j]) - row_shift[i] over the kept queries i, joined
// with those of the queries before (see key_moments_part.rs). q [b, h, n, d], k [b, h, m, d], lambda [h or 1], query_mask bytes
// [b, h, n], row_shift [b, h, n, w], before [b, h, m, 3], moments [b, h, m, p].
//
// A block has ROWS keys: 8 x 16 threads, each with ROWS / 8 keys x 4 of 64 queries at a time. A thread keeps running moments of
// its keys over its own queries; at the end the 16 threads of a key join theirs. Deviations are taken from the mean so far, with
// the first block from its first query's value, so near-equal values lose nothing. Two stages take 24 or 32 KiB, of which every
// card that copies asynchronously holds three.
constexpr u32 R = ROWS / 8u;
// Blocks that a multiprocessor has to hold. Left to itself, the compiler spills for the sake of one more.
constexpr u32 RESIDENT = ROWS == 64u ? 3u : 4u;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) key_moments_part(
    Params params, const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ lambda,
    const u8* __restrict__ query_mask, const float* __restrict__ row_shift, const float* __restrict__ before,
    float* __restrict__ moments) {
  __shared__ Tiles<ROWS, STAY> tiles;
  const Block block = block_of<ROWS>(params.m, 1u, params.h);
  const u32 head = block.head;
  const u32 h = block.h;
  const u32 key0 = block.row0;
  const u32 n = params.n;
  const u32 m = params.m;
  const u32 d = params.d;
  const u8* flags = query_mask;
  if (HAS_QUERY_MASK) { flags += size_t(head / params.h) * params.query_mask_b + size_t(h) * params.query_mask_h; }
  const Divisor bandwidth = divisor_of(METRIC == 0u ? 1.0f : lambda[h % params.bandwidths]);
  const u32 ty = threadIdx.x / 16u;
  const u32 tx = threadIdx.x % 16u;

  float mean[R] = {};
  float squares[R] = {};
  float taken = 0.0f;
  Walk<ROWS, STAY> walk = {tiles, k + size_t(head) * m * d, key0, m, q + size_t(head) * n * d, n, d};
  walk.sums<METRIC>([&](float (&sums)[R][4], u32 query0) {
    float first[R] = {};
    float second[R] = {};
#pragma unroll
    for (u32 i = 0u; i < 4u; i++) {
      const u32 query = query0 + 4u * tx + i;
      if (query >= n || (HAS_QUERY_MASK && flags[query] == 0u)) { continue; }
      const float shift = HAS_ROW_SHIFT ? row_shift[(size_t(head) * n + query) * params.w] : 0.0f;
#pragma unroll
      for (u32 a = 0u; a < R; a++) {
        const float x = exp_accurate(exponent(sums[a][i], params.scale, bandwidth)) - shift;
        if (taken == 0.0f) { mean[a] = x; }
        const float apart = x - mean[a];
        first[a] += apart;
        second[a] += apart * apart;
      }
      taken += 1.0f;
    }
    const Divisor count = divisor_of(fmaxf(taken, 1.0f));
#pragma unroll
    for (u32 a = 0u; a < R; a++) {
      const float step = divided(first[a], count);
      mean[a] += step;
      squares[a] += second[a] - step * first[a];
    }
  });

  for (u32 apart = 8u; apart > 0u; apart /= 2u) {
    const float other = __shfl_xor_sync(ALL_LANES, taken, apart);
    const float part = other / fmaxf(taken + other, 1.0f);
#pragma unroll
    for (u32 a = 0u; a < R; a++) {
      const float distance = __shfl_xor_sync(ALL_LANES, mean[a], apart) - mean[a];
      squares[a] += __shfl_xor_sync(ALL_LANES, squares[a], apart) + distance * distance * (taken * part);
      mean[a] += distance * part;
    }
    taken += other;
  }
  if (tx != 0u) { return; }
#pragma unroll
  for (u32 a = 0u; a < R; a++) {
    const u32 key = key0 + entry_of<8u>(ty, a);
    if (key >= m) { continue; }
    const size_t line = size_t(head) * m + key;
    float all_squares = fmaxf(squares[a], 0.0f);
    float all_taken = taken;
    float all_mean = mean[a];
    if (HAS_BEFORE && before[line * 3u + 2u] > 0.0f) {
      const float earlier = before[line * 3u + 2u];
      all_taken += earlier;
      const float distance = all_mean - before[line * 3u];
      all_mean = before[line * 3u] + distance * (taken / all_taken);
      all_squares += before[line * 3u + 1u] + distance * distance * (earlier * (taken / all_taken));
    }
    float* const to = moments + line * params.p;
    to[0] = all_mean;
    to[1] = params.p == 2u ? all_squares / fmaxf(all_taken, 1.0f) : all_squares;
    if (params.p > 2u) { to[2] = all_taken; }
  }
}
