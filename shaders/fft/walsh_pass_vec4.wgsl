// walsh_pass on vectors of four channels: see walsh.wgsl.
alias Number = vec4f;
const WORDS: u32 = 4u;
@group(0) @binding(1) var<storage, read> x: array<Number>; // [b, h, o, p, i, c]
@group(0) @binding(2) var<storage, read> spectrum: array<f32>; // [h or 1, k]
@group(0) @binding(3) var<storage, read_write> y: array<Number>; // [b, h, o, p, i, c]
