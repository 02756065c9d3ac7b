// One Stockham pass of a transform, y[(i-k)R + k + jp] = DFT_R(x[i + jm] w^(jk)), k = i mod p; inputs and twiddles
// come as texels of two complex numbers, which software drivers gather at once.
@group(0) @binding(1) var x: texture_2d<f32>;
@group(0) @binding(2) var w: texture_2d<f32>;
@group(0) @binding(3) var<storage, read> s: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>;

fn loaded(at: Place, word: u32) -> vec4f { return textureLoad(x, texel_place(word >> 2u), 0); }

fn twiddles(at: Place, half: u32) -> vec4f {
  return textureLoad(w, texel_place(((params.w_at + at.k * params.g) >> 2u) + half), 0);
}

fn factor(word: u32) -> vec2f { return vec2f(s[word], s[word + 1u]); }

fn stored(at: Place, word: u32, z: vec4f) {
  if (at.y_column >= params.e) { return; }
  y[word >> 2u] = z;
}
