// Queries and channels as texels of four words.
@group(0) @binding(1) var q: texture_2d<f32>;
@group(0) @binding(2) var x: texture_2d<f32>;
@group(0) @binding(3) var<storage, read> prior: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

fn queries(row: u32, feature: u32) -> vec4f {
  let at = params.q_at + row * params.r + min(feature, params.r - 1u);
  let z = textureLoad(q, texel_place(at >> 2u), 0);
  // Slices begin at even features.
  return select(vec4f(), select(z, vec4f(z.zw, 0.0, 0.0), (feature & 2u) != 0u), feature < params.r);
}

fn channels(head: u32, row: u32, channel: u32) -> vec4f {
  return textureLoad(x, texel_place(channel_word(head, row, channel) >> 2u), 0);
}
