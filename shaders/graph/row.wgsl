// A row of a sparse operator. Places past the end of the lists and columns that are no node give nothing; nothing is read there.
fn row_of(node: u32) -> vec2u {
  let last = min(starts[params.starts_at + node + 1u], params.z);
  return vec2u(min(starts[params.starts_at + node], last), last);
}

fn node_of(column: u32) -> u32 { return min(column, params.n - 1u); }

fn weight_of(place: u32, column: u32) -> f32 {
  var weight = 1.0;
  if (HAS_WEIGHTS) { weight = weights[params.weights_at + place]; }
  return select(0.0, weight, column < params.n);
}
