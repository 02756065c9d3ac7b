// In front of every CUDA source: short names of types, and what threads of a warp or a block do together.
// What a source may use beyond this: the language, float2, float4, uint2, uint4 and uchar4, mathematical functions in f32, warp shuffles and votes with a full
// mask, __syncthreads, __syncwarp, atomics on 32-bit words, and the bits of floats. Shared memory is declared with its size and holds
// no numbers when a block begins. All of this also runs on the host, thread by thread (src/backend/cuda/host/).
typedef unsigned int u32;
typedef unsigned char u8;

constexpr u32 WARP = 32u;
constexpr u32 ALL_LANES = 0xffffffffu;

__device__ inline u32 divided_up(u32 x, u32 by) { return (x + by - 1u) / by; }

// The sum over the lanes of a warp, in all of them.
__device__ inline float warp_sum(float x) {
  for (u32 apart = WARP / 2u; apart > 0u; apart /= 2u) { x += __shfl_xor_sync(ALL_LANES, x, apart); }
  return x;
}

__device__ inline float warp_max(float x) {
  for (u32 apart = WARP / 2u; apart > 0u; apart /= 2u) { x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, apart)); }
  return x;
}

// The sum over the threads of a block of whole warps, in all of them. All threads call it, and may call it again.
template <u32 COUNT> __device__ inline float block_sum(float x) {
  __shared__ float sums[COUNT / WARP];
  x = warp_sum(x);
  __syncthreads(); // sums of an earlier call have been read
  if (threadIdx.x % WARP == 0u) { sums[threadIdx.x / WARP] = x; }
  __syncthreads(); // every warp's sum is there
  float all = 0.0f;
  for (u32 warp = 0u; warp < COUNT / WARP; warp++) { all += sums[warp]; }
  return all;
}

template <u32 COUNT> __device__ inline float block_max(float x) {
  __shared__ float largest[COUNT / WARP];
  x = warp_max(x);
  __syncthreads(); // those of an earlier call have been read
  if (threadIdx.x % WARP == 0u) { largest[threadIdx.x / WARP] = x; }
  __syncthreads(); // every warp's is there
  float all = largest[0];
  for (u32 warp = 1u; warp < COUNT / WARP; warp++) { all = fmaxf(all, largest[warp]); }
  return all;
}
