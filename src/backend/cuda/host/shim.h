// CUDA on the host, for tests: the threads of a block take turns. Each runs until it waits at a barrier or with its warp, and goes on when
// all have arrived, so what a source computes here is what its text says, warp shuffles included. Blocks run one after another. The
// order of the threads can be turned around: results that depend on it miss a barrier. Asynchronous copies arrive as late as they may,
// when their thread waits for their group, and until then their place holds NaN: results that need them sooner miss a wait or a barrier.
#include <csetjmp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>

// Sources do here what they do on a card of this architecture.
#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 800
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __shared__ static __attribute__((section("shared_memory")))
#define __align__(n) alignas(n)

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w) { return {x, y, z, w}; }

namespace shim {

struct Index { unsigned x, y, z; };
enum Wait { NOTHING, BLOCK, LANES };

// A copy that has not arrived, and the number of its group among its thread's.
struct Copy {
  void* to;
  const void* from;
  unsigned bytes;
  bool inside;
  unsigned group;
};

struct Fiber {
  jmp_buf at;
  ucontext_t start;
  char* stack;
  bool begun, done;
  Wait wait;
  Index thread;
  Copy* copies; // in the order in which they were begun
  unsigned pending, room;
  unsigned groups; // that were closed
};

static const size_t STACK = 256 << 10;
static const unsigned MOST = 1024;
static Fiber fibers[MOST];
static jmp_buf scheduler;
static Fiber* now;
static Index block_index, block_size, grid_size;
static unsigned long long slots[MOST];
static void (*body)();
static const char* mistake; // of a source, where one was seen

static void enter() {
  body();
  now->done = true;
  _longjmp(scheduler, 1);
}

static void yield(Wait wait) {
  now->wait = wait;
  if (_setjmp(now->at) == 0) { _longjmp(scheduler, 1); }
}

// Lets a thread run until it waits or ends. Nothing local is used after the jump back.
static void resume(Fiber* fiber) {
  now = fiber;
  if (_setjmp(scheduler) != 0) { return; }
  if (fiber->begun) { _longjmp(fiber->at, 1); }
  fiber->begun = true;
  getcontext(&fiber->start);
  fiber->start.uc_stack.ss_sp = fiber->stack;
  fiber->start.uc_stack.ss_size = STACK;
  fiber->start.uc_link = nullptr;
  makecontext(&fiber->start, enter, 0);
  setcontext(&fiber->start);
}

// Whether all threads from `first` that still run wait for the same thing, which then happens.
static bool release(unsigned first, unsigned end, Wait wait) {
  bool any = false;
  for (unsigned i = first; i < end; i++) {
    if (fibers[i].done) { continue; }
    if (fibers[i].wait != wait) { return false; }
    any = true;
  }
  for (unsigned i = first; i < end; i++) { fibers[i].wait = NOTHING; }
  return any;
}

// Runs a block; false where its threads wait for each other for ever.
static bool run_block(unsigned threads, bool backwards) {
  for (unsigned i = 0; i < threads; i++) {
    Fiber& fiber = fibers[i];
    if (!fiber.stack) { fiber.stack = (char*)malloc(STACK); }
    fiber.begun = fiber.done = false;
    fiber.wait = NOTHING;
    fiber.thread = {i, 0, 0};
    fiber.pending = fiber.groups = 0;
  }
  for (;;) {
    bool moved = false, left = false;
    for (unsigned k = 0; k < threads; k++) {
      Fiber* fiber = &fibers[backwards ? threads - 1 - k : k];
      if (fiber->done) { continue; }
      left = true;
      if (fiber->wait != NOTHING) { continue; }
      resume(fiber);
      moved = true;
    }
    if (!left) { return true; }
    for (unsigned first = 0; first < threads; first += 32) {
      moved |= release(first, first + 32 < threads ? first + 32 : threads, LANES);
    }
    moved |= release(0, threads, BLOCK);
    if (!moved) { return false; }
  }
}

template <typename T> static T exchanged(T x, unsigned source) {
  unsigned thread = now->thread.x, warp = thread & ~31u;
  slots[thread] = 0;
  memcpy(&slots[thread], &x, sizeof(T));
  yield(LANES);
  unsigned at = warp + (source & 31u);
  T result = x;
  if (at < block_size.x) { memcpy(&result, &slots[at], sizeof(T)); }
  yield(LANES);
  return result;
}

static unsigned votes(bool vote) {
  unsigned thread = now->thread.x, warp = thread & ~31u, result = 0;
  slots[thread] = vote;
  yield(LANES);
  for (unsigned lane = 0; lane < 32 && warp + lane < block_size.x; lane++) {
    if (!fibers[warp + lane].done && slots[warp + lane]) { result |= 1u << lane; }
  }
  yield(LANES);
  return result;
}

// Begins a copy of 4 or 16 bytes into shared memory, of zeros where the source is not `inside`.
static void copy_async(void* to, const void* from, unsigned bytes, bool inside) {
  if ((size_t)to % bytes != 0 || (inside && (size_t)from % bytes != 0)) {
    mistake = "an asynchronous copy begins at no multiple of its size";
    return;
  }
  if (now->pending == now->room) {
    now->room = now->room == 0 ? 64 : 2 * now->room;
    now->copies = (Copy*)realloc(now->copies, now->room * sizeof(Copy));
  }
  now->copies[now->pending++] = {to, from, bytes, inside, now->groups};
  memset(to, 0xff, bytes);
}

static void commit_copies() { now->groups++; }

// Lets all copies arrive but those of the last `left` groups and those that belong to no group yet.
static void wait_copies(unsigned left) {
  unsigned arrived = 0;
  while (arrived < now->pending && now->copies[arrived].group + left < now->groups) {
    const Copy& copy = now->copies[arrived++];
    if (copy.inside) { memcpy(copy.to, copy.from, copy.bytes); } else { memset(copy.to, 0, copy.bytes); }
  }
  now->pending -= arrived;
  memmove(now->copies, now->copies + arrived, now->pending * sizeof(Copy));
}

// Whether a thread of a block that has ended waits for no copy that it began.
static bool all_arrived(unsigned threads) {
  for (unsigned i = 0; i < threads; i++) {
    if (fibers[i].pending != 0) {
      mistake = "a block ends before copies that its threads began have arrived";
      return false;
    }
  }
  return true;
}

} // namespace shim

#define threadIdx (shim::now->thread)
#define blockIdx (shim::block_index)
#define blockDim (shim::block_size)
#define gridDim (shim::grid_size)

inline void __syncthreads() { shim::yield(shim::BLOCK); }
inline void __syncwarp(unsigned = 0xffffffffu) { shim::yield(shim::LANES); }
inline void __threadfence() {}
inline void __threadfence_block() {}
template <typename T> inline T __shfl_sync(unsigned, T x, unsigned lane) { return shim::exchanged(x, lane); }
template <typename T> inline T __shfl_xor_sync(unsigned, T x, unsigned mask) {
  return shim::exchanged(x, (threadIdx.x & 31u) ^ mask);
}
template <typename T> inline T __shfl_down_sync(unsigned, T x, unsigned by) {
  unsigned lane = threadIdx.x & 31u;
  return shim::exchanged(x, lane + by < 32u ? lane + by : lane);
}
template <typename T> inline T __shfl_up_sync(unsigned, T x, unsigned by) {
  unsigned lane = threadIdx.x & 31u;
  return shim::exchanged(x, lane >= by ? lane - by : lane);
}
inline unsigned __ballot_sync(unsigned, bool vote) { return shim::votes(vote); }
inline bool __any_sync(unsigned, bool vote) { return shim::votes(vote) != 0; }
inline bool __all_sync(unsigned, bool vote) { return shim::votes(!vote) == 0; }

template <typename T> inline T atomicAdd(T* at, T x) { T old = *at; *at = old + x; return old; }
template <typename T> inline T atomicMax(T* at, T x) { T old = *at; *at = old > x ? old : x; return old; }
template <typename T> inline T atomicMin(T* at, T x) { T old = *at; *at = old < x ? old : x; return old; }
template <typename T> inline T atomicOr(T* at, T x) { T old = *at; *at = old | x; return old; }
template <typename T> inline T atomicExch(T* at, T x) { T old = *at; *at = x; return old; }
template <typename T> inline T atomicCAS(T* at, T compare, T x) { T old = *at; if (old == compare) { *at = x; } return old; }

inline float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
inline float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
inline unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
inline int __float_as_int(float x) { int y; memcpy(&y, &x, 4); return y; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float sinpif(float x) { return (float)sin(3.14159265358979323846 * (double)x); }
inline float cospif(float x) { return (float)cos(3.14159265358979323846 * (double)x); }
template <typename T> inline T __ldg(const T* at) { return *at; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }

extern char __start_shared_memory[] __attribute__((weak));
extern char __stop_shared_memory[] __attribute__((weak));

// Runs all blocks: null, or what threads did wrong.
static const char* run_grid(unsigned blocks, unsigned threads, int backwards, void (*body)()) {
  shim::body = body;
  shim::grid_size = {blocks, 1, 1};
  shim::block_size = {threads, 1, 1};
  for (unsigned k = 0; k < blocks; k++) {
    shim::block_index = {backwards ? blocks - 1 - k : k, 0, 0};
    // Nobody may count on what an earlier block left: NaN in floats.
    if (__start_shared_memory) { memset(__start_shared_memory, 0xff, __stop_shared_memory - __start_shared_memory); }
    shim::mistake = nullptr;
    if (!shim::run_block(threads, backwards != 0)) {
      return "threads of a block wait for each other for ever: some left, or wait elsewhere";
    }
    if (shim::mistake || !shim::all_arrived(threads)) { return shim::mistake; }
  }
  return nullptr;
}
