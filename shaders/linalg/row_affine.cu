// out[i, c] = (x[i, c] - shift[c]) scale[i] where row i is kept, 0 elsewhere (selected, not multiplied: masked rows may hold
// anything). x, out [b, h, n, m]; shift [b, h, m]; scale, keep [b, h, n]. Four items per thread, THREADS apart; an item is a
// word, or a vector where rows are whole ones.
typedef Words<VECTORS>::Type Item;
constexpr u32 EACH = 4u;

extern "C" __global__ void __launch_bounds__(THREADS) row_affine(
    Params params, const float* __restrict__ x, const float* __restrict__ shift, const float* __restrict__ scale,
    const u8* __restrict__ keep, float* __restrict__ out) {
  const u32 cols = params.m / (VECTORS ? 4u : 1u);
  const Stretch stretch = stretch_of_block(params.n, cols, EACH * THREADS);
  const u32 head = stretch.head;
  const size_t items = size_t(params.n) * cols;
  const Item* const from = reinterpret_cast<const Item*>(x) + head * items;
  Item* const to = reinterpret_cast<Item*>(out) + head * items;
  const Item* const shifts = reinterpret_cast<const Item*>(shift) + size_t(head) * cols;
  const u8* const kept =
      keep + (HAS_KEEP ? size_t(head / params.h) * params.keep_b + size_t(head % params.h) * params.keep_h : 0u);
#pragma unroll
  for (u32 k = 0u; k < EACH; k++) {
    const u32 i = k * THREADS + threadIdx.x;
    const size_t at = stretch.first + i;
    if (at < items) {
      const u32 row = stretch.row + (stretch.col + i) / cols;
      const u32 col = (stretch.col + i) % cols;
      Item value = filled<Item>(0.0f);
      if (!HAS_KEEP || kept[row] != 0u) {
        value = from[at];
        if (HAS_SHIFT) { value = value - shifts[col]; }
        if (HAS_SCALE) { value = scale[size_t(head) * params.n + row] * value; }
      }
      to[at] = value;
    }
  }
}
