// What every attention kernel does with one pair of a query and a key: METRIC 0 softmax, 1 Laplacian, 2 Gaussian.

// A row that has met no key yet. Exponents stay within +-1e38, so a difference of two never overflows.
const NO_KEY: f32 = -2.0e38;

// What four coordinates contribute to the product or distance.
fn pair(x: vec4f, y: vec4f) -> vec4f {
  if (METRIC == 0u) { return x * y; }
  let difference = x - y;
  if (METRIC == 1u) { return abs(difference); }
  return difference * difference;
}

// The exponents of four pairs from their products or distances.
fn exponent(sums: vec4f, bandwidth: f32) -> vec4f {
  if (METRIC == 0u) { return clamp(sums * params.scale, vec4f(-1.0e38), vec4f(1.0e38)); }
  return clamp(-sums / bandwidth, vec4f(-1.0e38), vec4f(0.0));
}

fn exp4(x: vec4f) -> vec4f {
  return vec4f(exp_accurate(x.x), exp_accurate(x.y), exp_accurate(x.z), exp_accurate(x.w));
}
