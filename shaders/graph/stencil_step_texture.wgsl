// Nodes from a texture.
@group(0) @binding(1) var cur: texture_2d<f32>; // [b, h, rows, cols, c]

fn texel(at: u32) -> vec4f { return textureLoad(cur, texel_place(at), 0); }
