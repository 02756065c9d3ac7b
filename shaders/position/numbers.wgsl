// Numbers from the words of a counter. MODE 0 Gaussians of the kernel's `table`, 1 of Box and Muller, 2 signs.

fn gaussian(word: u32) -> f32 {
  let v = word & 0x7fffffffu;
  let zeros = countLeadingZeros(v) - 1u;
  let rest = (v << zeros) & 0x3fffffffu;
  let piece = params.table_at + zeros * 8u + (rest >> 27u);
  let fraction = bitcast<i32>((rest >> 14u) & 0x1fffu);
  let magnitude = bitcast<i32>(table[piece]) + ((bitcast<i32>(table[piece + 256u]) * fraction) >> 13u);
  return f32(select(magnitude, -magnitude, (word >> 31u) != 0u)) * 9.5367431640625e-7;
}

// −2 ln(n / 2²⁴) for n from 1 to 2²⁴, with small numbers as precise as large ones.
fn minus_two_ln(n: u32) -> f32 {
  var exponent = 24 - i32(31u - countLeadingZeros(n));
  // In [1, 2), then in [1/√2, √2).
  var m = f32(n << u32(exponent)) * 5.9604644775390625e-8;
  if (m > 1.41421354) { m *= 0.5; exponent -= 1; }
  let s = (m - 1.0) / (m + 1.0);
  let z = s * s;
  let series = s * (2.0 + z * (0.666666667 + z * (0.4 + z * (0.285714286 + z * (0.222222222 + z * 0.181818182)))));
  return 2.0 * (f32(exponent) * 0.693147181 - series);
}

fn numbers(words: vec4u) -> vec4f {
  if (MODE == 0u) { return vec4f(gaussian(words.x), gaussian(words.y), gaussian(words.z), gaussian(words.w)); }
  if (MODE == 1u) {
    let wave = waves(words.yyww & vec4u(0xffffff00u));
    let radius = vec2f(sqrt(minus_two_ln((words.x >> 8u) + 1u)), sqrt(minus_two_ln((words.z >> 8u) + 1u)));
    return radius.xxyy * vec4f(wave.cosine.x, wave.sine.y, wave.cosine.z, wave.sine.w);
  }
  return vec4f(1.0) - 2.0 * vec4f(words & vec4u(1u));
}
