// graph_attention for GPUs, a group per graph, head and tile of queries: see pairs_tile.wgsl.
@group(0) @binding(1) var<storage, read> q: array<f32>; // [b, h, n, r]
@group(0) @binding(2) var<storage, read> k: array<f32>; // [b, h, n, r]
@group(0) @binding(3) var<storage, read> v: array<f32>; // [b, h, n, e]
@group(0) @binding(4) var<storage, read> offsets: array<u32>; // [graphs + 1]
@group(0) @binding(5) var<storage, read> blocks: array<u32>; // [graphs + 1]
@group(0) @binding(6) var<storage, read> mask: array<f32>; // [h or 1, z]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [b, h, n, e]
