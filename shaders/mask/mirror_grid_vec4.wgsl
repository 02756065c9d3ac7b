// mirror_grid on vectors of four channels: see mirror_grid.wgsl.
alias Number = vec4f;
const WORDS: u32 = 4u;
@group(0) @binding(1) var<storage, read> x: array<Number>; // [b, h, n, c]
@group(0) @binding(2) var<storage, read_write> y: array<Number>; // [b, h, m, c]
