// One Stockham pass of a transform, y[(i-k)R + k + jp] = DFT_R(x[i + jm] w^(jk)), k = i mod p, word by word: rows of any
// width, whose last words are 0 where they are missing.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> w: array<f32>;
@group(0) @binding(3) var<storage, read> s: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

fn loaded(at: Place, word: u32) -> vec4f {
  let left = params.a - min(params.a, params.x_from + at.q);
  var z = vec4f();
  if (left > 0u) { z.x = x[word]; }
  if (left > 1u) { z.y = x[word + 1u]; }
  if (left > 2u) { z.z = x[word + 2u]; }
  if (left > 3u) { z.w = x[word + 3u]; }
  return z;
}

fn twiddles(at: Place, half: u32) -> vec4f {
  let from_word = params.w_at + at.k * params.g + 4u * half;
  return vec4f(w[from_word], w[from_word + 1u], w[from_word + 2u], w[from_word + 3u]);
}

fn factor(word: u32) -> vec2f { return vec2f(s[word], s[word + 1u]); }

fn stored(at: Place, word: u32, z: vec4f) {
  let left = params.e - min(params.e, at.y_column);
  if (left > 0u) { y[word] = z.x; }
  if (left > 1u) { y[word + 1u] = z.y; }
  if (left > 2u) { y[word + 2u] = z.z; }
  if (left > 3u) { y[word + 3u] = z.w; }
}
