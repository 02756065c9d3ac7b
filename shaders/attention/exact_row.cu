// Rows of the exact attention matrix for each of r queries: out[j, q] = e^(score - log_sum[q]), where the score is -distance /
// lambda or scale times the product, and log_sum is 0 where it is left out; 0 where key j is masked. queries [b, h, r, d], k [b,
// h, n, d], lambda [h], log_sum [b, h, r], keep bytes [b, h, n], out [b, h, n, r].
//
// Eight lanes share a key, so that a warp reads whole lines of four keys; further queries find the keys in the cache.
constexpr u32 LANES = 8u;

extern "C" __global__ void __launch_bounds__(THREADS) exact_row(
    Params params, const float* __restrict__ queries, const float* __restrict__ k, const float* __restrict__ lambda,
    const float* __restrict__ log_sum, const u8* __restrict__ keep, float* __restrict__ out) {
  const u32 key_blocks = divided_up(params.n, THREADS / LANES);
  const u32 head = blockIdx.x / key_blocks;
  const u32 key = blockIdx.x % key_blocks * (THREADS / LANES) + threadIdx.x / LANES;
  const u32 lane = threadIdx.x % LANES;
  const u32 h = head % params.h;
  // Lanes past the last key go on with it, because sums over lanes want them all, and store nothing.
  const bool inside = key < params.n;
  const size_t line = size_t(head) * params.n + min(key, params.n - 1u);
  bool kept = true;
  if (HAS_KEEP) {
    kept = keep[size_t(head / params.h) * params.keep_b + size_t(h) * params.keep_h + min(key, params.n - 1u)] != 0u;
  }
  const float factor = METRIC == 0u ? params.scale : -1.0f / lambda[h];
  const float* const key_line = k + line * params.d;
  for (u32 query = 0u; query < params.r; query++) {
    const float* const query_line = queries + (size_t(head) * params.r + query) * params.d;
    float sum = 0.0f;
    if (FOURS) {
      float4 sums = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      for (u32 c = lane; c < params.d / 4u; c += LANES) {
        const float4 x = reinterpret_cast<const float4*>(query_line)[c];
        const float4 y = reinterpret_cast<const float4*>(key_line)[c];
        sums.x = with_pair<METRIC>(sums.x, x.x, y.x);
        sums.y = with_pair<METRIC>(sums.y, x.y, y.y);
        sums.z = with_pair<METRIC>(sums.z, x.z, y.z);
        sums.w = with_pair<METRIC>(sums.w, x.w, y.w);
      }
      sum = (sums.x + sums.y) + (sums.z + sums.w);
    } else {
      for (u32 c = lane; c < params.d; c += LANES) { sum = with_pair<METRIC>(sum, query_line[c], key_line[c]); }
    }
    for (u32 apart = LANES / 2u; apart > 0u; apart /= 2u) { sum += __shfl_xor_sync(ALL_LANES, sum, apart); }
    float score = sum * factor;
    if (HAS_LOG_SUM) { score -= log_sum[size_t(head) * params.r + query]; }
    if (inside && lane == query % LANES) { out[line * params.r + query] = kept ? exp_accurate(score) : 0.0f; }
  }
}
