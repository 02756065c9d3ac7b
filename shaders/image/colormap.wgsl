// A picture of numbers: 256 colours between low and high, blended linearly between neighbours. One thread per pixel.
// values [rows, cols], colours [256] packed red-lowest, out [rows, cols] rgba8unorm (display bytes).
@group(0) @binding(1) var<storage, read> values: array<f32>;
@group(0) @binding(2) var<storage, read> colours: array<u32>;
@group(0) @binding(3) var out: texture_storage_2d<rgba8unorm, write>;

fn bytes(packed: u32) -> vec4f {
  return vec4f(vec4u(packed, packed >> 8u, packed >> 16u, packed >> 24u) & vec4u(255u));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let pixel = group * 64u + thread;
  if (pixel >= params.rows * params.cols) { return; }
  let x = values[params.values_at + pixel];
  // By the bits: drivers may take a NaN for an ordinary number in comparisons.
  let bits = bitcast<u32>(x);
  let finite = (bits & 0x7f800000u) != 0x7f800000u;
  let special = select(params.infinite, params.nan, (bits & 0x007fffffu) != 0u);
  let part = (clamp(x, params.low, params.high) - params.low) / (params.high - params.low);
  let place = select(0.0, clamp(255.0 * part, 0.0, 255.0), finite);
  let below = u32(place);
  let lower = bytes(colours[params.colours_at + below]);
  let upper = bytes(colours[params.colours_at + min(below + 1u, 255u)]);
  let blended = lower + (upper - lower) * (place - f32(below));
  // Rounded here, so that every driver stores the same byte.
  let byte = floor(select(bytes(special), blended, finite) + 0.5);
  textureStore(out, vec2u(pixel % params.cols, pixel / params.cols), byte / 255.0);
}
