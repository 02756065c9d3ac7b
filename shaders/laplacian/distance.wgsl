// The gap between coordinates that the metric sums, and what becomes of the sum.
// METRIC: 1 = |x - y| (Laplacian), 2 = (x - y)^2 (Gaussian).
fn gap4(x: vec4f, y: vec4f) -> vec4f {
  let t = x - y;
  if (METRIC == 1u) { return abs(t); }
  return t * t;
}

fn gap1(x: f32, y: f32) -> f32 {
  let t = x - y;
  if (METRIC == 1u) { return abs(t); }
  return t * t;
}

// Callers fetch it once, before their loops: on software drivers a storage load costs as much as eight distances.
fn bandwidth_of(head: u32) -> f32 {
  return lambda[params.lambda_at + head];
}

fn finish(distance: f32, bandwidth: f32) -> f32 {
  return exp_accurate(-distance / bandwidth);
}
