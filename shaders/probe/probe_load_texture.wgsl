// Texels.
@group(0) @binding(1) var x: texture_2d<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

fn begin(batch: u32, thread: u32) {}

fn texel(batch: u32, at: u32) -> vec4f { return textureLoad(x, texel_place(params.x_at / 4u + batch * TEXELS + at), 0); }
