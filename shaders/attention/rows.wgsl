// What the variants of attention_rows share: masks, the weighted value, and the end of a row.

fn key_is_kept(key_mask_from: u32, key: u32) -> bool {
  if (!HAS_KEY_MASK) { return true; }
  let at = key_mask_from + key;
  return ((key_mask[at >> 2u] >> ((at & 3u) * 8u)) & 0xffu) != 0u;
}

fn pair_is_kept(mask_from: u32, row: u32, key: u32) -> bool {
  if (!HAS_MASK) { return true; }
  let at = mask_from + row * params.mm + key;
  return ((mask[at >> 2u] >> ((at & 3u) * 8u)) & 0xffu) != 0u;
}

// A pair that the caller's matrix leaves out may hide NaN in its value, so its product is not used.
fn weighed(weight: f32, value: vec4f) -> vec4f {
  if (HAS_MASK) { return select(vec4f(), weight * value, weight > 0.0); }
  return weight * value;
}

// Values of a finished row. The sum of a row with keys is at least 1, because the nearest key weighs exactly 1.
fn finished(x: vec4f, shift: f32, total: f32) -> vec4f {
  if (params.p > params.e) { return x; }
  if (NORMALISE == 0u) { return x / max(total, 1.0); }
  return x * exp_accurate(shift);
}

fn store4(at: u32, col: u32, x: vec4f) {
  for (var c = 0u; c < 4u; c++) {
    if (col + c < params.e) { out[at + col + c] = x[c]; }
  }
}

fn store_state(at: u32, shift: f32, total: f32) {
  if (params.p > params.e) {
    out[at + params.e] = shift;
    out[at + params.e + 1u] = total;
  }
}
