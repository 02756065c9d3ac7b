// out[row, i] = x[row, 0] + ... + x[row, i]; x, out [b, h, n]. One block per row walks it in pieces of four numbers per thread:
// sums within threads, then within warps, then over warps, and the piece's total is carried to the next. The next piece is
// fetched meanwhile.
constexpr u32 WARPS = THREADS / WARP;
constexpr u32 PIECE = 4u * THREADS;

// Four neighbouring numbers of a row; 0 beyond its end.
__device__ inline float4 load(const float* __restrict__ row, u32 at, u32 n) {
  if (VECTORS) { return at < n ? *reinterpret_cast<const float4*>(row + at) : filled<float4>(0.0f); }
  float four[4];
  for (u32 k = 0u; k < 4u; k++) { four[k] = at + k < n ? row[at + k] : 0.0f; }
  return make_float4(four[0], four[1], four[2], four[3]);
}

__device__ inline void store(float* __restrict__ row, u32 at, u32 n, float4 sums) {
  if (VECTORS) {
    if (at < n) { *reinterpret_cast<float4*>(row + at) = sums; }
    return;
  }
  const float four[4] = {sums.x, sums.y, sums.z, sums.w};
  for (u32 k = 0u; k < 4u; k++) {
    if (at + k < n) { row[at + k] = four[k]; }
  }
}

// x of this lane and those before it.
__device__ inline float warp_scan(float x) {
  for (u32 apart = 1u; apart < WARP; apart *= 2u) {
    const float before = __shfl_up_sync(ALL_LANES, x, apart);
    if (threadIdx.x % WARP >= apart) { x += before; }
  }
  return x;
}

extern "C" __global__ void __launch_bounds__(THREADS) scan(
    Params params, const float* __restrict__ x, float* __restrict__ out) {
  __shared__ float totals[2][WARPS];
  const float* const row = x + size_t(blockIdx.x) * params.n;
  float* const line = out + size_t(blockIdx.x) * params.n;
  const u32 lane = threadIdx.x % WARP;
  const u32 warp = threadIdx.x / WARP;
  float carry = 0.0f;
  float4 next = load(row, 4u * threadIdx.x, params.n);
  u32 side = 0u;
  for (u32 piece = 0u; piece < params.n; piece += PIECE) {
    const u32 at = piece + 4u * threadIdx.x;
    const float4 here = next;
    next = load(row, at + PIECE, params.n);
    const float two = here.x + here.y;
    const float three = two + here.z;
    const float four = three + here.w;
    const float upto = warp_scan(four);
    if (lane == WARP - 1u) { totals[side][warp] = upto; }
    __syncthreads(); // every warp's total is there; the other side has been read
    float before = carry;
    for (u32 other = 0u; other < WARPS; other++) {
      if (other < warp) { before += totals[side][other]; }
      carry += totals[side][other];
    }
    // What the lanes before have: not upto - four, which would cancel.
    const float earlier = __shfl_up_sync(ALL_LANES, upto, 1u);
    if (lane > 0u) { before += earlier; }
    store(line, at, params.n, make_float4(before + here.x, before + two, before + three, before + four));
    side = 1u - side;
  }
}
