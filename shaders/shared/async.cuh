// Copies from global to shared memory that go on while threads compute, and stages of them.
//
// A thread begins copies, closes those that it has begun as a group, and waits for its groups. What it has waited for is there
// for itself, and behind a barrier for the whole block; before that nobody reads the place of a copy or writes there. Cards from
// Ampere on copy beside the threads' own work. Older ones load and store at once, and have one stage instead of two, because a
// second one would take shared memory and hide nothing.
#if __CUDA_ARCH__ >= 800
constexpr u32 STAGES = 2u;
#else
constexpr u32 STAGES = 1u;
#endif

// Begins to copy 16 bytes, or to write zeros where they are not `inside`: nothing is read then. Both begin at multiples of 16.
__device__ inline void copy_async_16(void* shared, const void* global, bool inside) {
#if __CUDA_ARCH__ < 800
  float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (inside) { x = *static_cast<const float4*>(global); }
  *static_cast<float4*>(shared) = x;
#elif defined(__CUDACC_RTC__)
  const u32 to = u32(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(global), "r"(inside ? 16u : 0u) : "memory");
#else
  shim::copy_async(shared, global, 16u, inside);
#endif
}

// The same of one number.
__device__ inline void copy_async_4(void* shared, const void* global, bool inside) {
#if __CUDA_ARCH__ < 800
  float x = 0.0f;
  if (inside) { x = *static_cast<const float*>(global); }
  *static_cast<float*>(shared) = x;
#elif defined(__CUDACC_RTC__)
  const u32 to = u32(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" : : "r"(to), "l"(global), "r"(inside ? 4u : 0u) : "memory");
#else
  shim::copy_async(shared, global, 4u, inside);
#endif
}

// COUNT copies of 16 bytes, the i-th to to(i) from from(i) where inside(i). Older cards load all before they store the first, so
// that they wait for memory once.
template <u32 COUNT, typename To, typename From, typename Inside>
__device__ inline void copy_async_16s(To to, From from, Inside inside) {
#if __CUDA_ARCH__ < 800
  float4 x[COUNT];
#pragma unroll
  for (u32 i = 0u; i < COUNT; i++) {
    x[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (inside(i)) { x[i] = *reinterpret_cast<const float4*>(from(i)); }
  }
#pragma unroll
  for (u32 i = 0u; i < COUNT; i++) { *to(i) = x[i]; }
#else
#pragma unroll
  for (u32 i = 0u; i < COUNT; i++) { copy_async_16(to(i), from(i), inside(i)); }
#endif
}

// Closes what the thread has begun since the last time as a group.
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ < 800
#elif defined(__CUDACC_RTC__)
  asm volatile("cp.async.commit_group;" : : : "memory");
#else
  shim::commit_copies();
#endif
}

// Waits until of the thread's groups at most the last N have not arrived.
template <u32 N> __device__ inline void wait_copies() {
#if __CUDA_ARCH__ < 800
#elif defined(__CUDACC_RTC__)
  asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
#else
  shim::wait_copies(N);
#endif
}

// A walk in steps, each of which uses what one stage of shared memory holds. While one stage is used, copies fill the other.
struct Stages {
  u32 now = 0u;

  // Fills the stage of the first step, by fill(number of the stage).
  template <typename Fill> __device__ inline void begin(Fill fill) {
    fill(now);
    commit_copies();
  }

  // Uses the stage that was filled last, by use(number), and fills that of the next step. All threads come here. What `use` reads
  // beside the stage may be overwritten behind the next barrier, the one of the next step at the latest.
  template <typename Fill, typename Use> __device__ inline void step(Fill fill, Use use) {
    const u32 full = now;
    now = STAGES - 1u - now;
    wait_copies<0u>();
    __syncthreads(); // the stage is complete, and nobody uses the other one any more
    if (STAGES == 2u) {
      fill(now);
      commit_copies();
    }
    use(full);
    if (STAGES == 1u) {
      __syncthreads(); // nobody overwrites the only stage while others use it
      fill(now);
    }
  }
};
