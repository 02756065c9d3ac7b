// Stretches of row-major matrices [heads, rows, cols], one a block: which head it is in, and the row and column it begins at.
struct Stretch {
  u32 head;
  size_t first;
  u32 row, col;
};

__device__ inline Stretch stretch_of_block(u32 rows, u32 cols, u32 length) {
  const size_t items = size_t(rows) * cols;
  const u32 blocks = u32((items + length - 1u) / length);
  const size_t first = size_t(blockIdx.x % blocks) * length;
  // Division of 64 bits takes a hundred instructions, and hardly any matrix needs it.
  const u32 row = first <= 0xffffffffu ? u32(first) / cols : u32(first / cols);
  return {blockIdx.x / blocks, first, row, u32(first - size_t(row) * cols)};
}
