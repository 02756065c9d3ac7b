// mirror_grid on single channels: see mirror_grid.wgsl.
alias Number = f32;
const WORDS: u32 = 1u;
@group(0) @binding(1) var<storage, read> x: array<Number>; // [b, h, n, c]
@group(0) @binding(2) var<storage, read_write> y: array<Number>; // [b, h, m, c]
