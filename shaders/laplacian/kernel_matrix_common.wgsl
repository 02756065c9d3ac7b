// What every variant of the kernel matrix does with a finished distance: masked rows and columns are 0, and the
// diagonal gets its shift (a masked landmark keeps 1 there, so that the matrix stays invertible).
fn kept_row(batch: u32, row: u32) -> bool {
  if (!HAS_X_KEEP) { return true; }
  let at = params.x_keep_at + batch / params.h * params.x_keep_b + batch % params.h * params.x_keep_h + row;
  return ((x_keep[at >> 2u] >> (8u * (at & 3u))) & 255u) != 0u;
}

fn kept_column(batch: u32, col: u32) -> bool {
  if (!HAS_Y_KEEP) { return true; }
  return y_keep[params.y_keep_at + batch / params.h * params.y_keep_b + batch % params.h * params.y_keep_h + col] != 0u;
}

fn entry(batch: u32, row: u32, col: u32, distance: f32, bandwidth: f32) -> f32 {
  var value = 0.0;
  let kept = kept_row(batch, row) && kept_column(batch, col) && (SQUARE == 0u || kept_column(batch, row));
  if (kept && OUTPUT == 1u) { value = distance; }
  if (kept && OUTPUT == 0u) { value = finish(distance, bandwidth); }
  if (SQUARE != 0u && row == col) {
    if (!kept) { value = 1.0; }
    value += params.diagonal;
  }
  return value;
}
