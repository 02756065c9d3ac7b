// Words of a storage buffer, neighbours side by side.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

fn begin(batch: u32, thread: u32) {}

fn texel(batch: u32, at: u32) -> vec4f {
  let from_word = params.x_at + batch * 4u * TEXELS + at;
  return vec4f(x[from_word], x[from_word + TEXELS], x[from_word + 2u * TEXELS], x[from_word + 3u * TEXELS]);
}
