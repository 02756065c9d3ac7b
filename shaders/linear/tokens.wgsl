// Masks, segments and decays of a scan: which keys count, how far a token sees, powers of the head's decay.
// `batch` counts heads through all windows.

fn key_mask_start(batch: u32) -> u32 {
  return params.key_mask_at + batch / params.h * params.key_mask_b + batch % params.h * params.key_mask_h;
}

fn reach_start(batch: u32) -> u32 {
  return params.reach_at + batch / params.h * params.reach_b + batch % params.h * params.reach_h;
}

// Keys of token i's segment at or before it and at or after it, itself included.
fn reach_of(start: u32, i: u32) -> vec2u {
  if (!HAS_REACH) { return vec2u(0xffffffffu); }
  return vec2u(reach[start + 2u * i], reach[start + 2u * i + 1u]);
}

// Whether key j is neither masked nor of no segment.
fn key_counts(mask_start: u32, reach_start: u32, j: u32) -> bool {
  if (HAS_KEY_MASK) {
    let at = mask_start + j;
    if (byte_of(key_mask[at >> 2u], at) == 0u) { return false; }
  }
  if (HAS_REACH) { return reach[reach_start + 2u * j] != 0u; }
  return true;
}

fn powers_start(batch: u32) -> u32 {
  if (!HAS_POWERS) { return 0u; }
  return params.powers_at + batch % params.h % params.heads * params.t;
}

// decay^distance; 1 where there is no decay.
fn power(start: u32, distance: u32) -> f32 {
  if (!HAS_POWERS) { return 1.0; }
  return powers[start + distance];
}
