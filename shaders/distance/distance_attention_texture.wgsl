// distance_attention for software drivers: see pairs_texture.wgsl.
@group(0) @binding(1) var q: texture_2d<f32>; // [b, h, m, r]
@group(0) @binding(2) var k: texture_2d<f32>; // [b, h, n, r]
@group(0) @binding(3) var v: texture_2d<f32>; // [b, h, n, e]
@group(0) @binding(4) var<storage, read> distances: array<u32>; // [b or 1, h or 1, m, w]
@group(0) @binding(5) var<storage, read> table: array<f32>; // [h or 1, t]
@group(0) @binding(6) var<storage, read> key_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(7) var<storage, read> query_mask: array<u32>; // bytes [b, h, m]
@group(0) @binding(8) var<storage, read_write> out: array<f32>; // [b, h, m, e]
