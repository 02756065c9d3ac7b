// graph_attention for software drivers: see pairs_texture.wgsl.
@group(0) @binding(1) var q: texture_2d<f32>; // [b, h, n, r]
@group(0) @binding(2) var k: texture_2d<f32>; // [b, h, n, r]
@group(0) @binding(3) var v: texture_2d<f32>; // [b, h, n, e]
@group(0) @binding(4) var<storage, read> offsets: array<u32>; // [graphs + 1]
@group(0) @binding(5) var<storage, read> blocks: array<u32>; // [graphs + 1]
@group(0) @binding(6) var<storage, read> mask: array<f32>; // [h or 1, z]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [b, h, n, e]
