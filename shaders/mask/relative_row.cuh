// The weights of one query of one head per block, whose threads share the keys: first all weights and their sum, then, unless
// RAW, each divided by it. out [b, h, n, c]. A thread reads back only what it wrote itself. `product(key)` is what the pair has
// before the mask.
template <typename Product> __device__ inline void write_row(
    const Params& params, const float* table, const u8* key_mask, const u32* segment, u32 head, u32 number, u32 row, float* out,
    Product product) {
  const u32 n = params.n;
  const Grid grid = whole_grid(params);
  const float* own_table = table_of(params, table, head);
  const u8* kept = key_mask;
  if (HAS_KEY_MASK) { kept += size_t(head / params.h) * params.key_mask_b + size_t(head % params.h) * params.key_mask_h; }
  const Range own = segment_of(segment, n, min(row, n - 1u));
  const bool exists = row < n;
  const bool is_global = row < grid.globals;
  const Triple at = exists && !is_global ? coordinates(grid, row) : Triple{0, 0, 0};
  float* to = out + size_t(head) * n * params.c + number;
  float total = 0.0f;
  for (u32 key = threadIdx.x; key < n; key += THREADS) {
    float mask = 1.0f;
    if (exists && !is_global && key >= grid.globals) {
      const Triple place = place_of(grid, at, coordinates(grid, key));
      const bool seen = in_support(grid, place) && key >= own.begin && key < own.end;
      mask = seen ? entry_at(grid, own_table, place) : 0.0f;
    }
    float weight = 0.0f;
    if (exists && mask != 0.0f && key_is_kept(kept, segment, n, key)) { weight = mask * product(key); }
    total += weight;
    to[size_t(key) * params.c] = weight;
  }
  if (RAW == 0u) {
    const float sum = block_sum<THREADS>(total);
    const float divisor = sum == 0.0f ? 1.0f : sum;
    for (u32 key = threadIdx.x; key < n; key += THREADS) { to[size_t(key) * params.c] /= divisor; }
  }
}
