// Vectors of a uniform buffer.
@group(0) @binding(1) var<uniform> x: array<vec4f, 4096>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

fn begin(batch: u32, thread: u32) {}

fn texel(batch: u32, at: u32) -> vec4f { return x[params.x_at / 4u + batch * TEXELS + at]; }
