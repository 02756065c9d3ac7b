// What becomes of a query and a key: products of features, or softmax of scaled products, or softmax of sums through a leaky ReLU.
const LINEAR: u32 = 0u;
const SOFTMAX: u32 = 1u;
const LOWEST: f32 = -3.0e38;

// A block of rows that see the same keys, and where the kernel finds their masks.
struct Place {
  row: u32,
  rows: u32,
  first: u32,
  last: u32,
  mask: u32,
  table: u32,
  keys: u32,
  queries: u32,
}

fn part(q4: vec4f, k4: vec4f) -> f32 {
  if (SCORES <= SOFTMAX) { return dot(q4, k4); }
  return dot(q4 + k4, vec4f(1.0));
}

fn score(s: vec4f) -> vec4f {
  if (SCORES <= SOFTMAX) { return params.scale * s; }
  return params.scale * select(params.slope * s, s, s > vec4f());
}

fn seen(mask: vec4f, s: vec4f) -> vec4f { return select(vec4f(LOWEST), s, mask != vec4f()); }

fn exp4(s: vec4f, top: f32) -> vec4f {
  return vec4f(exp_accurate(s.x - top), exp_accurate(s.y - top), exp_accurate(s.z - top), exp_accurate(s.w - top));
}

// Pairs without weight give 0, whatever the key holds.
fn weighted(mask: vec4f, s: vec4f) -> vec4f { return select(vec4f(), mask * s, mask != vec4f()); }

// Rows without keys are zeros.
fn finished(x: vec4f, total: f32, asked: bool) -> vec4f {
  return select(vec4f(), x / select(total, 1.0, total == 0.0), asked && !(total == 0.0));
}
