// Tensors as textures 2048 texels wide, four words to a texel.
fn texel_place(at: u32) -> vec2u { return vec2u(at & 2047u, at >> 11u); }

// Four words beginning at word `at` of the eight in two neighbouring texels.
fn shifted(lo: vec4f, hi: vec4f, at: u32) -> vec4f {
  let by_two = (at & 2u) != 0u;
  let v = select(lo, vec4f(lo.zw, hi.xy), by_two);
  let next = select(hi.x, hi.z, by_two);
  return select(v, vec4f(v.yzw, next), (at & 1u) != 0u);
}

struct Eight {
  lo: vec4f,
  hi: vec4f,
}
