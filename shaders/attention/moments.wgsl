// What the variants of key_moments_part share. A key's running mean and sum of squared deviations take in a block of
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

// Joins a key's moments over this range of queries with those of the ranges before it, and writes them.
fn store(local_batch: u32, key: u32, range_mean: f32, range_squares: f32, range_taken: f32) {
  if (key >= params.m) { return; }
  let line = local_batch * params.m + key;
  var mean = range_mean;
  var squares = max(range_squares, 0.0);
  var taken = range_taken;
  if (HAS_BEFORE) {
    let state = params.before_at + line * 3u;
    let other = before[state + 2u];
    if (other > 0.0) {
      taken += other;
      let apart = mean - before[state];
      mean = before[state] + apart * (range_taken / taken);
      squares += before[state + 1u] + apart * apart * (other * (range_taken / taken));
    }
  }
  let at = params.moments_at + line * params.p;
  moments[at] = mean;
  if (params.p == 2u) {
    moments[at + 1u] = squares / max(taken, 1.0);
  } else {
    moments[at + 1u] = squares;
    moments[at + 2u] = taken;
  }
}
