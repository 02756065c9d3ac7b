// Keys and values as texels of four words.
@group(0) @binding(1) var k: texture_2d<f32>;
@group(0) @binding(2) var v: texture_2d<f32>;
@group(0) @binding(3) var<storage, read> key_mask: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4f>;

// The four features of which `feature` is one, 0 beyond the last.
fn keys(row: u32, feature: u32) -> vec4f {
  let at = params.k_at + row * params.r + min(feature, params.r - 1u);
  return select(vec4f(), textureLoad(k, texel_place(at >> 2u), 0), feature < params.r);
}

fn values(row: u32, c: u32) -> vec4f { return textureLoad(v, texel_place((params.v_at + row * params.e + c) >> 2u), 0); }
