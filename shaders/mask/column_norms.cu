// Euclidean norms of columns: out[chunk, c] = sqrt of the sum of x[i, c]^2 over the kept rows i of a chunk. x [b, h, n, r],
// key_mask [b, h, n], out [b, h, c, r]. A block takes COLUMNS neighbouring columns of one chunk, LANES rows at a time. Numbers
// are divided by the largest before they are squared, so that squares neither overflow nor vanish.
constexpr u32 COLUMNS = 32u;
constexpr u32 LANES = THREADS / COLUMNS;

extern "C" __global__ void __launch_bounds__(THREADS) column_norms(
    Params params, const float* __restrict__ x, const u8* __restrict__ key_mask, float* __restrict__ out) {
  __shared__ float parts[2][LANES][COLUMNS];
  const u32 column_blocks = divided_up(params.r, COLUMNS);
  const u32 chunk = blockIdx.x / column_blocks % params.c;
  const u32 head = blockIdx.x / column_blocks / params.c;
  const u32 own = threadIdx.x % COLUMNS;
  const u32 lane = threadIdx.x / COLUMNS;
  const u32 column = blockIdx.x % column_blocks * COLUMNS + own;
  const bool inside = column < params.r;
  const u8* kept = key_mask;
  if (HAS_KEY_MASK) { kept += size_t(head / params.h) * params.key_mask_b + size_t(head % params.h) * params.key_mask_h; }
  const float* from = x + size_t(head) * params.n * params.r + column;
  const u32 first = chunk * params.rows;
  const u32 end = min(params.rows, params.n - min(first, params.n)) + first;

  float largest = 0.0f;
  for (u32 i = first + lane; inside && i < end; i += LANES) {
    if (!HAS_KEY_MASK || kept[i] != 0u) { largest = fmaxf(largest, fabsf(from[size_t(i) * params.r])); }
  }
  parts[0][lane][own] = largest;
  __syncthreads(); // every lane's largest is there
  for (u32 other = 0u; other < LANES; other++) { largest = fmaxf(largest, parts[0][other][own]); }
  const float divisor = largest == 0.0f ? 1.0f : largest;
  float sum = 0.0f;
  for (u32 i = first + lane; inside && i < end; i += LANES) {
    if (!HAS_KEY_MASK || kept[i] != 0u) {
      const float part = from[size_t(i) * params.r] / divisor;
      sum += part * part;
    }
  }
  parts[1][lane][own] = sum;
  __syncthreads(); // every lane's sum is there
  if (lane == 0u && inside) {
    float all = 0.0f;
    for (u32 other = 0u; other < LANES; other++) { all += parts[1][other][own]; }
    out[(size_t(head) * params.c + chunk) * params.r + column] = largest * sqrtf(all);
  }
}
