// Every row times a number of its own, s or 1 / sqrt(max(s, 0) + epsilon): x, out [b, h, r, c], s [b, h, r, w], of which one
// column counts. Four items per thread, THREADS apart; an item is a word, or a vector where rows are whole ones.
typedef Words<VECTORS>::Type Item;
constexpr u32 EACH = 4u;

extern "C" __global__ void __launch_bounds__(THREADS) scale_rows(
    Params params, const float* __restrict__ x, const float* __restrict__ s, float* __restrict__ out) {
  const u32 cols = params.c / (VECTORS ? 4u : 1u);
  const Stretch stretch = stretch_of_block(params.r, cols, EACH * THREADS);
  const u32 head = stretch.head;
  const size_t items = size_t(params.r) * cols;
  const Item* const from = reinterpret_cast<const Item*>(x) + head * items;
  Item* const to = reinterpret_cast<Item*>(out) + head * items;
  const float* const column = s + size_t(head / params.h) * params.s_b + size_t(head % params.h) * params.s_h + params.column;
#pragma unroll
  for (u32 k = 0u; k < EACH; k++) {
    const u32 i = k * THREADS + threadIdx.x;
    const size_t at = stretch.first + i;
    if (at < items) {
      const float raw = column[size_t(stretch.row + (stretch.col + i) / cols) * params.w];
      // Rounding may leave a variance a little below 0.
      const float factor = OPERATION == 1u ? 1.0f / sqrtf(fmaxf(raw, 0.0f) + params.epsilon) : raw;
      to[at] = factor * from[at];
    }
  }
}
