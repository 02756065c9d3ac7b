// out[j, i] = x[i, j]: x [b, h, n, m], out [b, h, m, n]. One block per 32 x 32 tile: rows are read and written along memory, and
// the corner is turned in shared memory, whose rows have a word of padding so that a column does not meet one bank.
constexpr u32 TILE = 32u;
constexpr u32 LINES = THREADS / TILE;

extern "C" __global__ void __launch_bounds__(THREADS) transpose(
    Params params, const float* __restrict__ x, float* __restrict__ out) {
  __shared__ float tile[TILE][TILE + 1u];
  const u32 row_tiles = divided_up(params.n, TILE);
  const u32 col_tiles = divided_up(params.m, TILE);
  const u32 in_head = blockIdx.x % (row_tiles * col_tiles);
  const size_t head = size_t(blockIdx.x / (row_tiles * col_tiles)) * params.n * params.m;
  const u32 row0 = in_head / col_tiles * TILE;
  const u32 col0 = in_head % col_tiles * TILE;
  const u32 line = threadIdx.x / TILE;
  const u32 place = threadIdx.x % TILE;
#pragma unroll
  for (u32 r = line; r < TILE; r += LINES) {
    if (row0 + r < params.n && col0 + place < params.m) {
      tile[r][place] = x[head + size_t(row0 + r) * params.m + col0 + place];
    }
  }
  __syncthreads(); // the tile is complete
#pragma unroll
  for (u32 c = line; c < TILE; c += LINES) {
    if (col0 + c < params.m && row0 + place < params.n) {
      out[head + size_t(col0 + c) * params.n + row0 + place] = tile[place][c];
    }
  }
}
