// Coefficient of a term of the expansion, four to a vector of the uniform block.
fn coefficient(term: u32) -> f32 {
  let at = params.coefficients_at + term;
  return coefficients[at >> 2u][at & 3u];
}

// What the sum begins with where none was handed over: the term before, if there is one.
fn begin_sum(here: vec4f) -> vec4f {
  if (params.term == 0u) { return vec4f(); }
  return coefficient(params.term - 1u) * here;
}
