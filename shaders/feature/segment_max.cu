// out[g] = max over the kept rows of chunk or segment g of x[i, COLUMN]; EMPTY where there is none. x [b, h, n, w], key_mask
// bytes [b, h, n], starts [b, h, s], out [b, h, g]. One block per chunk or segment.
constexpr float EMPTY = -3e38f;

extern "C" __global__ void __launch_bounds__(THREADS) segment_max(
    Params params, const float* __restrict__ x, const u8* __restrict__ key_mask, const u32* __restrict__ starts,
    float* __restrict__ out) {
  const u32 head = blockIdx.x / params.g;
  const u32 g = blockIdx.x % params.g;
  size_t first = size_t(g) * params.rows;
  size_t end = first + params.rows;
  if (HAS_STARTS) {
    const u32* const line = starts + size_t(head / params.h) * params.starts_b + size_t(head % params.h) * params.starts_h;
    first = line[g];
    end = line[g + 1u];
  }
  const u32 last = end < params.n ? u32(end) : params.n;
  const float* const column = x + size_t(head) * params.n * params.w + COLUMN;
  float largest = EMPTY;
  for (size_t row = first + threadIdx.x; row < last; row += THREADS) {
    if (HAS_KEY_MASK && !row_is_kept(key_mask, params.key_mask_b, params.key_mask_h, head, params.h, u32(row))) { continue; }
    largest = fmaxf(largest, column[row * params.w]);
  }
  largest = block_max<THREADS>(largest);
  if (threadIdx.x == 0u) { out[blockIdx.x] = largest; }
}
