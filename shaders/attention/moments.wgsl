// What the variants of key_moments share. A key's running mean and sum of squared deviations take in a block of
// queries at a time: first_sum and square_sum are the sums of x - mean and of its square over the block, where mean is
// the one from before. With the first block that is the first query's value, so near-equal values lose nothing.

fn query_is_kept(query_mask_from: u32, query: u32) -> bool {
  if (!HAS_QUERY_MASK) { return true; }
  let at = query_mask_from + query;
  return ((query_mask[at >> 2u] >> ((at & 3u) * 8u)) & 0xffu) != 0u;
}

fn shift_of(row_shift_from: u32, query: u32) -> f32 {
  if (!HAS_ROW_SHIFT) { return 0.0; }
  return row_shift[row_shift_from + query * params.w];
}
