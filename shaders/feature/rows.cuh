// Which rows of packed and masked tokens count.

// Whether a mask of bytes [b, h, n], of which heads may share parts, keeps a row; null keeps all.
__device__ inline bool row_is_kept(const u8* mask, u32 stride_b, u32 stride_h, u32 head, u32 heads, u32 row) {
  return mask == nullptr || mask[size_t(head / heads) * stride_b + size_t(head % heads) * stride_h + row] != 0u;
}
