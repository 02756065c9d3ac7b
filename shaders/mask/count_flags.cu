// How many of each part's PART flags [total] are set: counts [parts]. One block per part.
extern "C" __global__ void __launch_bounds__(THREADS) count_flags(
    Params params, const u32* __restrict__ flags, u32* __restrict__ counts) {
  __shared__ u32 found;
  if (threadIdx.x == 0u) { found = 0u; }
  __syncthreads(); // the count begins at 0
  const size_t begin = size_t(blockIdx.x) * PART;
  u32 mine = 0u;
  for (u32 i = threadIdx.x; i < PART && begin + i < params.total; i += THREADS) { mine += flags[begin + i] != 0u ? 1u : 0u; }
  for (u32 apart = WARP / 2u; apart > 0u; apart /= 2u) { mine += __shfl_xor_sync(ALL_LANES, mine, apart); }
  if (threadIdx.x % WARP == 0u) { atomicAdd(&found, mine); }
  __syncthreads(); // every warp has added its own
  if (threadIdx.x == 0u) { counts[blockIdx.x] = found; }
}
