// weights[i] = keep[i] / (number kept), inverse[0] = 1 / (number kept), both 0 where nothing is kept: keep, weights [b, h, n],
// inverse [b, h, 1]. One block per head: count, then write.
extern "C" __global__ void __launch_bounds__(THREADS) mask_weights(
    Params params, const u8* __restrict__ keep, float* __restrict__ weights, float* __restrict__ inverse) {
  __shared__ u32 total;
  if (threadIdx.x == 0u) { total = 0u; }
  __syncthreads(); // the count begins before anyone adds
  const u32 head = blockIdx.x;
  const u8* const kept = keep + size_t(head / params.h) * params.keep_b + size_t(head % params.h) * params.keep_h;
  u32 mine = 0u;
#pragma unroll 4
  for (u32 i = threadIdx.x; i < params.n; i += THREADS) { mine += kept[i] != 0u ? 1u : 0u; }
  for (u32 apart = WARP / 2u; apart > 0u; apart /= 2u) { mine += __shfl_xor_sync(ALL_LANES, mine, apart); }
  if (threadIdx.x % WARP == 0u) { atomicAdd(&total, mine); }
  __syncthreads(); // every warp has added its own
  const float share = total > 0u ? 1.0f / float(total) : 0.0f;
  for (u32 i = threadIdx.x; i < params.n; i += THREADS) { weights[size_t(head) * params.n + i] = kept[i] != 0u ? share : 0.0f; }
  if (threadIdx.x == 0u) { inverse[head] = share; }
}
