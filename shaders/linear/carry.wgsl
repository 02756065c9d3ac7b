// What a state is multiplied by when it passes a chunk: 0 where another segment begins in it.
fn carry(batch: u32, chunk: u32, backward: bool) -> f32 {
  let first = chunk * params.rows;
  let end = min(first + params.rows, params.tokens);
  if (HAS_REACH) {
    let start = params.reach_at + batch / params.h * params.reach_b + batch % params.h * params.reach_h;
    let seen = reach[start + select(2u * (end - 1u), 2u * first + 1u, backward)];
    if (seen <= end - first) { return 0.0; }
  }
  if (!HAS_POWERS) { return 1.0; }
  return powers[params.powers_at + batch % params.h % params.heads * params.t + (end - first)];
}
