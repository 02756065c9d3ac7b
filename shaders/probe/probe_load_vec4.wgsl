// Vectors of a storage buffer.
@group(0) @binding(1) var<storage, read> x: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

fn begin(batch: u32, thread: u32) {}

fn texel(batch: u32, at: u32) -> vec4f { return x[params.x_at / 4u + batch * TEXELS + at]; }
