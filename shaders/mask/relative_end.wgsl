// How the variants of relative_attention end a row.

fn row_is_asked(query_mask_from: u32, row: u32) -> bool {
  var asked = true;
  if (HAS_QUERY_MASK) {
    let at = query_mask_from + row;
    asked = ((query_mask[at >> 2u] >> ((at & 3u) * 8u)) & 0xffu) != 0u;
  }
  return asked;
}

// Values of a finished row: zeros where the denominator is 0, as it is without keys.
fn finished(x: vec4f, total: f32, asked: bool) -> vec4f {
  let divisor = select(total, 1.0, total == 0.0 || params.p > params.e);
  return select(vec4f(), x / divisor, asked && (!(total == 0.0) || params.p > params.e));
}

fn store4(at: u32, col: u32, x: vec4f) {
  for (var c = 0u; c < 4u; c++) {
    if (col + c < params.e) { out[at + col + c] = x[c]; }
  }
}

fn store_total(at: u32, total: f32, asked: bool) {
  if (params.p > params.e) { out[at + params.e] = select(0.0, total, asked); }
}
