// out[row, col, :] = alpha linear(rgb) + 1 - alpha: display bytes over white, in linear light. One thread per pixel.
// pixels [rows, cols] rgba8unorm, out [rows, cols, 3].
@group(0) @binding(1) var pixels: texture_2d<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

// x^(12/5) for x in [0.09, 1]: the driver's own power may err by thousands of ULP. y = x^(2/5) solves y^5 = x^2; the
// quadratic start is within 6 %, and each Newton step squares that twice over: 5e-3, 5e-5, 5e-9.
fn power_12_5(x: f32) -> f32 {
  let square = x * x;
  var y = 0.3817 + (x - 0.09) * (1.1243 - 0.6355 * (x - 0.3));
  for (var step = 0u; step < 3u; step++) {
    let y2 = y * y;
    y = 0.2 * (4.0 * y + square / (y2 * y2));
  }
  return square * y;
}

fn linear(display: f32) -> f32 {
  // The byte itself: a driver's conversion to float need not be the nearest.
  let c = floor(display * 255.0 + 0.5) / 255.0;
  if (c <= 0.04045) { return c / 12.92; }
  return power_12_5((c + 0.055) / 1.055);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let pixel = group * 64u + thread;
  if (pixel >= params.rows * params.cols) { return; }
  let colour = textureLoad(pixels, vec2u(pixel % params.cols, pixel / params.cols), 0);
  let alpha = floor(colour.w * 255.0 + 0.5) / 255.0;
  let at = params.out_at + 3u * pixel;
  out[at] = linear(colour.x) * alpha + (1.0 - alpha);
  out[at + 1u] = linear(colour.y) * alpha + (1.0 - alpha);
  out[at + 2u] = linear(colour.z) * alpha + (1.0 - alpha);
}
