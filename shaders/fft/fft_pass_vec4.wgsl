// One Stockham pass of a transform, y[(i-k)R + k + jp] = DFT_R(x[i + jm] w^(jk)), k = i mod p; neighbouring threads read and
// write neighbouring vec4f of two complex numbers.
@group(0) @binding(1) var<storage, read> x: array<vec4f>;
@group(0) @binding(2) var<storage, read> w: array<vec4f>;
@group(0) @binding(3) var<storage, read> s: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>;

fn loaded(at: Place, word: u32) -> vec4f { return x[word >> 2u]; }

fn twiddles(at: Place, half: u32) -> vec4f { return w[((params.w_at + at.k * params.g) >> 2u) + half]; }

fn factor(word: u32) -> vec2f { return vec2f(s[word], s[word + 1u]); }

fn stored(at: Place, word: u32, z: vec4f) {
  if (at.y_column >= params.e) { return; }
  y[word >> 2u] = z;
}
