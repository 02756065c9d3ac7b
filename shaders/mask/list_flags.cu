// The places of all set flags [total] in ascending order, one block per part of PART flags: it adds up the counts [parts] of the
// parts before it and then numbers its own, THREADS at a time. slot [total] is each flag's number; list [1 + c] is how many there
// are, their places, and 0xffffffff for the rest, which the flags that are not set fill in their order so that every entry is
// written. The first block also writes the workgroups that the listed rows want (dispatch [3]) and how many flags were set and
// given (status [2]).
constexpr u32 NONE = 0xffffffffu;
constexpr u32 WARPS = THREADS / WARP;

extern "C" __global__ void __launch_bounds__(THREADS) list_flags(
    Params params, const u32* __restrict__ flags, const u32* __restrict__ counts, u32* __restrict__ slot, u32* __restrict__ list,
    u32* __restrict__ dispatch, u32* __restrict__ status) {
  __shared__ u32 before, everywhere;
  __shared__ u32 of_warp[WARPS];
  const u32 lane = threadIdx.x % WARP;
  const u32 warp = threadIdx.x / WARP;
  if (threadIdx.x == 0u) { before = everywhere = 0u; }
  __syncthreads(); // the counts begin at 0
  u32 earlier = 0u, all = 0u;
  for (u32 i = threadIdx.x; i < params.parts; i += THREADS) {
    const u32 count = counts[i];
    all += count;
    if (i < blockIdx.x) { earlier += count; }
  }
  atomicAdd(&before, earlier);
  atomicAdd(&everywhere, all);
  __syncthreads(); // every thread has added its counts
  const u32 found = everywhere;
  const u32 capacity = params.w - 1u;
  const u32 begin = blockIdx.x * PART;
  const u32 end = begin + min(PART, params.total - min(begin, params.total));
  u32 next = before;
  for (u32 from = begin; from < end; from += THREADS) {
    const u32 i = from + threadIdx.x;
    const bool flagged = i < end && flags[i] != 0u;
    const u32 votes = __ballot_sync(ALL_LANES, flagged);
    if (lane == 0u) { of_warp[warp] = u32(__popc(votes)); }
    __syncthreads(); // every warp's count is there
    u32 number = next + u32(__popc(votes & ((1u << lane) - 1u)));
    for (u32 other = 0u; other < WARPS; other++) {
      if (other < warp) { number += of_warp[other]; }
      next += of_warp[other];
    }
    __syncthreads(); // and has been read
    if (i < end) {
      slot[i] = flagged ? number : NONE;
      // i - number flags before this one are not set.
      const u32 place = flagged ? number : found + (i - number);
      if (place < capacity) { list[1u + place] = flagged ? i : NONE; }
    }
  }
  if (blockIdx.x == 0u && threadIdx.x == 0u) {
    const u32 listed = min(found, capacity);
    list[0] = listed;
    const u32 wanted = listed * params.groups_per_row;
    // As few lines of at most 65535 groups as will do.
    const u32 lines = max(1u, divided_up(wanted, 65535u));
    dispatch[0] = divided_up(wanted, lines);
    dispatch[1] = lines;
    dispatch[2] = 1u;
    status[0] = found;
    status[1] = params.total;
  }
}
