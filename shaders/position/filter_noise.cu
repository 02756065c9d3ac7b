// Noise under a short filter: every position of a box n0 x n1 x n2 sums its window of the noise around it. z [b, h, u0, u1, u2,
// r], taps [b, h, t0, t1, t2], out [b, h, n0, n1, n2, r], u = n + t - 1 along every axis. A thread makes WORDS lanes of up to
// ROWS positions along the last axis, which share what they read.
typedef Words<WORDS == 4u>::Type Value;

constexpr u32 ROWS = 4u;
// Blocks that a multiprocessor has to hold. Left to itself, the compiler spills for the sake of one more.
constexpr u32 RESIDENT = 3u;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) filter_noise(
    Params params, const float* __restrict__ z, const float* __restrict__ taps, float* __restrict__ out) {
  const u32 lanes = params.r / WORDS;
  const u32 strips = divided_up(params.n2, ROWS);
  const size_t size = size_t(params.n0) * params.n1 * strips * lanes;
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 head = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= size) { return; }
  const float* weights = taps + size_t(head / params.h) * params.taps_b + size_t(head % params.h) * params.taps_h;
  const u32 lane = u32(item % lanes);
  const size_t strip = item / lanes;
  const u32 i2 = u32(strip % strips) * ROWS;
  const size_t line = strip / strips;
  const u32 i1 = u32(line % params.n1);
  const u32 i0 = u32(line / params.n1);
  // Strips past the line's end read its last place, for results that are not stored.
  const u32 last = params.u2 - 1u;
  const size_t planes = size_t(params.u0) * params.u1;
  const Value* source = reinterpret_cast<const Value*>(z) + head * planes * params.u2 * lanes + lane;
  Value sums[ROWS] = {};
  for (u32 p0 = 0u; p0 < params.t0; p0++) {
    for (u32 p1 = 0u; p1 < params.t1; p1++) {
      const Value* from = source + ((size_t(i0) + p0) * params.u1 + i1 + p1) * params.u2 * lanes;
      const float* own = weights + (size_t(p0) * params.t1 + p1) * params.t2;
      // Four neighbours slide over the line together.
      Value seen[ROWS];
#pragma unroll
      for (u32 row = 1u; row < ROWS; row++) { seen[row] = from[size_t(min(i2 + row - 1u, last)) * lanes]; }
      for (u32 p2 = 0u; p2 < params.t2; p2++) {
#pragma unroll
        for (u32 row = 1u; row < ROWS; row++) { seen[row - 1u] = seen[row]; }
        seen[ROWS - 1u] = from[size_t(min(i2 + p2 + ROWS - 1u, last)) * lanes];
        const float w = own[p2];
#pragma unroll
        for (u32 row = 0u; row < ROWS; row++) { sums[row] = sums[row] + w * seen[row]; }
      }
    }
  }
  const size_t places = size_t(params.n0) * params.n1;
  Value* to = reinterpret_cast<Value*>(out) + ((head * places + line) * params.n2 + i2) * lanes + lane;
#pragma unroll
  for (u32 row = 0u; row < ROWS; row++) {
    if (i2 + row < params.n2) { to[size_t(row) * lanes] = sums[row]; }
  }
}
