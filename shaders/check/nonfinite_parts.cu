// Count and first place of NaN and infinities in each part of ROWS numbers: one block per part. x [b, h, n], parts [b, h, g, 2],
// g = n / ROWS rounded up; the place counts from the part's begin, 0xffffffff where every number is finite.
typedef Words<VECTORS>::Type Item;
constexpr u32 WIDTH = VECTORS ? 4u : 1u;

struct Found { u32 count, first; };

// By the bits, so that no compiler's view of comparisons matters.
__device__ inline void look_at(float x, u32 at, Found& found) {
  if ((__float_as_uint(x) & 0x7f800000u) == 0x7f800000u) {
    found.count++;
    found.first = min(found.first, at);
  }
}
__device__ inline void look_at(float4 x, u32 at, Found& found) {
  look_at(x.x, at, found);
  look_at(x.y, at + 1u, found);
  look_at(x.z, at + 2u, found);
  look_at(x.w, at + 3u, found);
}

extern "C" __global__ void __launch_bounds__(THREADS) nonfinite_parts(
    Params params, const float* __restrict__ x, u32* __restrict__ parts) {
  __shared__ Found all;
  if (threadIdx.x == 0u) { all = {0u, 0xffffffffu}; }
  __syncthreads(); // both begin before anyone adds
  const u32 head = blockIdx.x / params.g;
  const u32 begin = blockIdx.x % params.g * ROWS;
  const u32 items = min(ROWS, params.n - begin) / WIDTH;
  const Item* const part = reinterpret_cast<const Item*>(x + size_t(head) * params.n + begin);
  Found mine = {0u, 0xffffffffu};
#pragma unroll 4
  for (u32 i = threadIdx.x; i < items; i += THREADS) { look_at(part[i], WIDTH * i, mine); }
  if (mine.count > 0u) {
    atomicAdd(&all.count, mine.count);
    atomicMin(&all.first, mine.first);
  }
  __syncthreads(); // every thread has added its finds
  if (threadIdx.x == 0u) {
    parts[2u * size_t(blockIdx.x)] = all.count;
    parts[2u * size_t(blockIdx.x) + 1u] = all.first;
  }
}
