// Elements of rows x width a head, which blocks take one after the other, head by head; SHARING neighbouring threads have one
// element. All divisions are of 32 bits, because one of 64 bits is a call that makes a thread's registers spill.
struct Item {
  u32 head, row, col;
  size_t at; // counted through all heads
  bool there; // threads past the last element of a head have none
};

template <u32 SHARING> __device__ inline Item shared_item_of(u32 rows, u32 width) {
  constexpr u32 COUNT = THREADS / SHARING;
  const size_t size = size_t(rows) * width;
  const u32 blocks_per_head = u32((size + COUNT - 1u) / COUNT);
  const u32 block = blockIdx.x % blocks_per_head;
  const size_t within = size_t(block) * COUNT + threadIdx.x / SHARING;
  Item item;
  item.head = blockIdx.x / blocks_per_head;
  item.at = item.head * size + within;
  item.there = within < size;
  // COUNT times `width` elements are COUNT rows; the rest is less than that.
  const size_t rest = size_t(block % width) * COUNT + threadIdx.x / SHARING;
  u32 row = 0u;
  if (width < 1u << 22u) {
    row = u32(rest) / width;
  } else {
    size_t left = rest;
    for (u32 bit = 1024u; bit > 0u; bit /= 2u) {
      if (left >= size_t(width) * bit) {
        left -= size_t(width) * bit;
        row += bit;
      }
    }
  }
  item.row = block / width * COUNT + row;
  item.col = u32(rest - size_t(row) * width);
  return item;
}

__device__ inline Item item_of(u32 rows, u32 width) { return shared_item_of<1u>(rows, width); }
