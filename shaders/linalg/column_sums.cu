// out[chunk, c] = sum over the chunk's rows of weight[i] (x[i, c] - shift[c])^POWER: x [b, h, n, m], shift [b, h, m], weight [b,
// h, n], out [b, h, c, m]; a row of weight 0 may hold anything. A block takes 32 columns of a chunk: a row's words by the lanes
// of a warp, every WARPS-th row by the same warp.
constexpr u32 WARPS = THREADS / WARP;

extern "C" __global__ void __launch_bounds__(THREADS) column_sums(
    Params params, const float* __restrict__ x, const float* __restrict__ shift, const float* __restrict__ weight,
    float* __restrict__ out) {
  __shared__ float sums[WARPS][WARP];
  const u32 strips = divided_up(params.m, WARP);
  const u32 place = blockIdx.x / strips; // head and chunk
  const u32 head = place / params.c;
  const u32 lane = threadIdx.x % WARP;
  const u32 warp = threadIdx.x / WARP;
  const u32 col = blockIdx.x % strips * WARP + lane;
  const u32 first = place % params.c * params.rows;
  const u32 end = first + min(params.rows, params.n - first);
  float sum = 0.0f;
  if (col < params.m) {
    const float less = HAS_SHIFT ? shift[size_t(head) * params.m + col] : 0.0f;
    const float* const column = x + size_t(head) * params.n * params.m + col;
#pragma unroll 4
    for (u32 i = first + warp; i < end; i += WARPS) {
      const float factor = HAS_WEIGHT ? weight[size_t(head) * params.n + i] : 1.0f;
      if (factor != 0.0f) {
        const float value = column[size_t(i) * params.m] - less;
        sum += factor * (POWER == 2u ? value * value : value);
      }
    }
  }
  sums[warp][lane] = sum;
  __syncthreads(); // every warp's sums are there
  if (warp == 0u && col < params.m) {
    for (u32 other = 1u; other < WARPS; other++) { sum += sums[other][lane]; }
    out[size_t(place) * params.m + col] = sum;
  }
}
