// Rows of the approximate attention matrix for r queries, without the matrix:
// out[j, q] = (sum_l weights[q, l] e^(-D(k[j], landmarks[l]) / lambda) + weights[q, m]) scale[j] + constant share, 0 where key j
// is masked. k [b, h, n, d], landmarks [b, h, m, d], weights [b, h, r, mw], lambda [h], scale [b, h, n], keep bytes [b, h, n],
// share [b, h, 1], out [b, h, n, r].
//
// A block takes ROWS keys and QUERIES queries: 8 x 16 threads, each with ROWS / 8 keys x 4 of 64 landmarks at a time, whose
// kernel values serve all its queries. At the end the 16 threads of a key add their sums.
constexpr u32 R = ROWS / 8u;
// Blocks that a multiprocessor has to hold. Left to itself, the compiler spills for the sake of one more.
constexpr u32 RESIDENT = ROWS == 64u ? 3u : 4u;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) nystrom_row(
    Params params, const float* __restrict__ k, const float* __restrict__ landmarks, const float* __restrict__ weights,
    const float* __restrict__ lambda, const float* __restrict__ scale, const u8* __restrict__ keep,
    const float* __restrict__ share, float* __restrict__ out) {
  __shared__ Tiles<ROWS, false> tiles;
  const Block block = block_of<ROWS>(params.n, divided_up(params.r, QUERIES), params.h);
  const u32 head = block.head;
  const u32 h = block.h;
  const u32 key0 = block.row0;
  const u32 query0 = block.part * QUERIES;
  const u32 n = params.n;
  const u32 m = params.m;
  const u32 d = params.d;
  const float* const w_head = weights + size_t(head) * params.r * params.mw;
  const Divisor bandwidth = divisor_of(lambda[h]);
  const u32 ty = threadIdx.x / 16u;
  const u32 tx = threadIdx.x % 16u;

  float results[QUERIES][R] = {};
  Walk<ROWS, false> walk = {tiles, k + size_t(head) * n * d, key0, n, landmarks + size_t(head) * m * d, m, d};
  walk.sums<METRIC>([&](float (&sums)[R][4], u32 l0) {
#pragma unroll
    for (u32 i = 0u; i < 4u; i++) {
      const u32 l = l0 + 4u * tx + i;
      if (l >= m) { continue; }
      float values[R];
#pragma unroll
      for (u32 a = 0u; a < R; a++) { values[a] = exp_accurate(-divided(sums[a][i], bandwidth)); }
#pragma unroll
      for (u32 query = 0u; query < QUERIES; query++) {
        const float weight = w_head[size_t(min(query0 + query, params.r - 1u)) * params.mw + l];
#pragma unroll
        for (u32 a = 0u; a < R; a++) { results[query][a] += weight * values[a]; }
      }
    }
  });

  const u8* flags = keep;
  if (HAS_KEEP) { flags += size_t(block.b) * params.keep_b + size_t(h) * params.keep_h; }
  const float added = HAS_SHARE ? params.constant * share[head] : params.constant;
#pragma unroll
  for (u32 query = 0u; query < QUERIES; query++) {
#pragma unroll
    for (u32 a = 0u; a < R; a++) {
      const float sum = lanes16_sum(results[query][a]);
      const u32 key = key0 + entry_of<8u>(ty, a);
      const u32 at = query0 + query;
      // Every lane has the sum; each of the first R ends one key.
      if (tx != a || key >= n || at >= params.r) { continue; }
      const size_t line = size_t(head) * n + key;
      float value = sum + w_head[size_t(at) * params.mw + m];
      if (HAS_SCALE) { value *= scale[line]; }
      const bool kept = !HAS_KEEP || flags[key] != 0u;
      out[line * params.r + at] = kept ? value + added : 0.0f;
    }
  }
}
