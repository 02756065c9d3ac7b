// walsh_pass on single channels: see walsh.wgsl.
alias Number = f32;
const WORDS: u32 = 1u;
@group(0) @binding(1) var<storage, read> x: array<Number>; // [b, h, o, p, i, c]
@group(0) @binding(2) var<storage, read> spectrum: array<f32>; // [h or 1, k]
@group(0) @binding(3) var<storage, read_write> y: array<Number>; // [b, h, o, p, i, c]
