// Landmarks: out[l, c] = mean of coordinate c over the kept tokens of cell l of the token grid; valid[l] = 1 where there is one.
// k [b, h, n, d], q [b, h, nq, d], cells [m, 5] = (source, first row, end row, first column, end column), keep bytes [b, h, n],
// out [b, h, m, d], valid [b, h, m].
//
// A block takes one landmark and 32 coordinates: a lane has a coordinate, a warp every eighth token.
constexpr u32 WARPS = THREADS / WARP;

extern "C" __global__ void __launch_bounds__(THREADS) pool_tokens(
    Params params, const float* __restrict__ k, const float* __restrict__ q, const u32* __restrict__ cells,
    const u8* __restrict__ keep, float* __restrict__ out, u32* __restrict__ valid) {
  __shared__ float sums[THREADS];
  __shared__ u32 members[WARPS];
  const u32 parts = max(divided_up(params.d, WARP), 1u);
  const u32 head = blockIdx.x / parts / params.m;
  const u32 landmark = blockIdx.x / parts % params.m;
  const u32 lane = threadIdx.x % WARP;
  const u32 warp = threadIdx.x / WARP;
  const u32 c = blockIdx.x % parts * WARP + lane;
  const u32* const cell = cells + size_t(landmark) * 5u;
  const bool of_queries = HAS_Q && cell[0] == 1u;
  // A cell that is not on the grid is no landmark: no token of it is read.
  const u32 tokens = of_queries ? params.nq : params.n;
  const bool on_grid = cell[0] <= (HAS_Q ? 1u : 0u) && cell[1] <= cell[2] && cell[3] <= cell[4] && cell[4] <= params.grid_cols &&
      cell[2] <= tokens / params.grid_cols;
  const u32 rows = on_grid ? cell[2] - cell[1] : 0u;
  const u32 cols = on_grid ? cell[4] - cell[3] : 0u;
  const float* const x = (of_queries ? q : k) + size_t(head) * tokens * params.d;
  const u8* flags = keep;
  if (HAS_KEEP) { flags += size_t(head / params.h) * params.keep_b + size_t(head % params.h) * params.keep_h; }
  float sum = 0.0f;
  u32 mine = 0u;
  // The grid has at most as many tokens as fit into 32 bits.
  for (u32 i = warp; i < rows * cols; i += WARPS) {
    const u32 token = (cell[1] + i / cols) * params.grid_cols + cell[3] + i % cols;
    if (HAS_KEEP && !of_queries && flags[token] == 0u) { continue; }
    mine += 1u;
    if (c < params.d) { sum += x[size_t(token) * params.d + c]; }
  }
  sums[threadIdx.x] = sum;
  if (lane == 0u) { members[warp] = mine; }
  __syncthreads(); // every warp's sums are there before the first warp adds them
  if (warp != 0u) { return; }
  float total = 0.0f;
  u32 kept = 0u;
  for (u32 w = 0u; w < WARPS; w++) {
    total += sums[w * WARP + lane];
    kept += members[w];
  }
  const size_t place = size_t(head) * params.m + landmark;
  if (c < params.d) { out[place * params.d + c] = kept > 0u ? total / float(kept) : 0.0f; }
  if (c == 0u) { valid[place] = kept > 0u ? 1u : 0u; }
}
