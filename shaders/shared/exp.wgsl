// e^x within 2 ULP for every finite x, independent of the driver's own exp (which may err by 30 ULP).
// x = k ln 2 + r with |r| <= ln 2 / 2; ln 2 is split so that k * EXP_LN2_HIGH is exact. Below -87.3 the result
// would be subnormal, which GPUs may flush: it is 0 there. Above 88.7 it is the largest finite number's neighbourhood.
const EXP_LOG2_E: f32 = 1.44269504088896;
const EXP_LN2_HIGH: f32 = 0.693145751953125;
const EXP_LN2_LOW: f32 = 1.42860682030941723e-6;

fn exp_accurate(x: f32) -> f32 {
  let clamped = clamp(x, -87.3, 88.72);
  let k = floor(clamped * EXP_LOG2_E + 0.5);
  let r = (clamped - k * EXP_LN2_HIGH) - k * EXP_LN2_LOW;
  // Taylor to r^7: at |r| <= 0.347 the next term is below 2e-9 relative.
  var p = 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = (p * r) * r + r;
  // 2^k in two factors, so that k = 128 does not overflow before the mantissa brings the product back.
  let half_k = i32(k) / 2;
  let rest_k = i32(k) - half_k;
  let scaled = (1.0 + p) * bitcast<f32>(u32(half_k + 127) << 23u) * bitcast<f32>(u32(rest_k + 127) << 23u);
  return select(0.0, scaled, x >= -87.3);
}
