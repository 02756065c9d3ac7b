// Random numbers by place: four lanes of one channel and position from one counter. MODE 0 a table's Gaussians, 1 Box and Muller, 2 signs.
@group(0) @binding(1) var<storage, read> table: array<u32>; // [512] beginnings, then slopes
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // [c, u, r]

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
  var m = f32(n) * exp2(f32(exponent - 24));
  if (m > 1.41421354) { m *= 0.5; exponent -= 1; }
  let s = (m - 1.0) / (m + 1.0);
  let z = s * s;
  let series = s * (2.0 + z * (0.666666667 + z * (0.4 + z * (0.285714286 + z * (0.222222222 + z * 0.181818182)))));
  return 2.0 * (f32(exponent) * 0.693147181 - series);
}

fn box_muller(a: u32, b: u32) -> vec2f {
  return sqrt(minus_two_ln((a >> 8u) + 1u)) * waves(b & 0xffffff00u);
}

fn numbers(words: vec4u) -> vec4f {
  if (MODE == 0u) { return vec4f(gaussian(words.x), gaussian(words.y), gaussian(words.z), gaussian(words.w)); }
  if (MODE == 1u) { return vec4f(box_muller(words.x, words.y), box_muller(words.z, words.w)); }
  return vec4f(1.0) - 2.0 * vec4f(words & vec4u(1u));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let quads = (params.r + 3u) / 4u;
  let item = group * 64u + thread;
  if (item >= params.c * params.u * quads) { return; }
  let quad = item % quads;
  let row = item / quads;
  let place = row % params.u;
  let i2 = params.first_2 + place % params.side_2;
  let i1 = params.first_1 + place / params.side_2 % params.side_1;
  let i0 = params.first_0 + place / (params.side_2 * params.side_1);
  let index = (i0 << params.shift_0) | (i1 << params.shift_1) | i2;
  var purpose = params.purpose;
  if (params.last_purpose > 0u && place + 1u == params.u) { purpose = params.last_purpose; }
  let counter = vec4u(index, (params.channel + row / params.u) | (quad << 20u), params.step, purpose);
  let four = numbers(philox(counter, vec2u(params.seed_low, params.seed_high)));
  for (var lane = 0u; lane < min(4u, params.r - 4u * quad); lane++) {
    out[params.out_at + row * params.r + 4u * quad + lane] = four[lane];
  }
}
