// (cos x, sin x) with an absolute error of about 1e-7 for |x| <= 1e5, which WGSL's own functions do not promise (2^-11 within
// [-pi, pi], nothing beyond). Larger angles have no digits left in f32: they count as 0.
// x = k pi/2 + r; pi/2 is split so that k times its first part is exact.
const WAVE_HALF_PI_HIGH: f32 = 1.5703125;
const WAVE_HALF_PI_MIDDLE: f32 = 4.8375129699707031e-4;
const WAVE_HALF_PI_LOW: f32 = 7.5497899548918821e-8;

fn wave(x: f32) -> vec2f {
  let angle = select(0.0, x, abs(x) <= 1e5);
  let k = floor(angle * 0.636619772 + 0.5);
  let r = ((angle - k * WAVE_HALF_PI_HIGH) - k * WAVE_HALF_PI_MIDDLE) - k * WAVE_HALF_PI_LOW;
  // Minimax on an eighth of a turn either way, in units of it.
  let y = r * 1.27323954;
  let z = y * y;
  let s = y * (0.785398185 - z * (0.0807454363 - z * (0.00249000685 - z * 3.59543992e-5)));
  let c = 1.0 - z * (0.308425128 - z * (0.0158543251 - z * (3.25938599e-4 - z * 3.52980419e-6)));
  let quarter = u32(i32(k) & 3);
  if (quarter == 0u) { return vec2f(c, s); }
  if (quarter == 1u) { return vec2f(-s, c); }
  if (quarter == 2u) { return vec2f(-c, -s); }
  return vec2f(s, -c);
}
