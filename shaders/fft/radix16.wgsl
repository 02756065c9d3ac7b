const COS_1: f32 = 0.9238795325112867; // of 2 pi / 16
const SIN_1: f32 = 0.3826834323650898;
const HALF_ROOT: f32 = 0.7071067811865476;

fn dft16(z: array<vec4f, 16>) -> array<vec4f, 16> {
  let a = dft4(z[0], z[4], z[8], z[12]);
  let b = dft4(z[1], z[5], z[9], z[13]);
  let c = dft4(z[2], z[6], z[10], z[14]);
  let d = dft4(z[3], z[7], z[11], z[15]);
  let r0 = dft4(a[0], b[0], c[0], d[0]);
  let r1 = dft4(a[1], times(b[1], vec2f(COS_1, -SIN_1)), (c[1] + turned(c[1])) * HALF_ROOT, times(d[1], vec2f(SIN_1, -COS_1)));
  let r2 = dft4(a[2], (b[2] + turned(b[2])) * HALF_ROOT, turned(c[2]), (turned(d[2]) - d[2]) * HALF_ROOT);
  let r3 = dft4(a[3], times(b[3], vec2f(SIN_1, -COS_1)), (turned(c[3]) - c[3]) * HALF_ROOT, times(d[3], vec2f(-COS_1, SIN_1)));
  return array<vec4f, 16>(r0[0], r1[0], r2[0], r3[0], r0[1], r1[1], r2[1], r3[1],
    r0[2], r1[2], r2[2], r3[2], r0[3], r1[3], r2[3], r3[3]);
}

fn butterfly(at: Place) {
  var z = array<vec4f, 16>(input(at, 0u), input(at, 1u), input(at, 2u), input(at, 3u),
    input(at, 4u), input(at, 5u), input(at, 6u), input(at, 7u), input(at, 8u), input(at, 9u), input(at, 10u),
    input(at, 11u), input(at, 12u), input(at, 13u), input(at, 14u), input(at, 15u));
  if (TWIDDLED) {
    let lo = twiddles(at, 0u);
    let hi = twiddles(at, 1u);
    let w1 = lo.xy;
    let w2 = lo.zw;
    let w3 = product(w1, w2);
    let w4 = hi.xy;
    let w8 = hi.zw;
    let w12 = product(w8, w4);
    z = array<vec4f, 16>(z[0], times(z[1], w1), times(z[2], w2), times(z[3], w3),
      times(z[4], w4), times(z[5], product(w4, w1)), times(z[6], product(w4, w2)), times(z[7], product(w4, w3)),
      times(z[8], w8), times(z[9], product(w8, w1)), times(z[10], product(w8, w2)), times(z[11], product(w8, w3)),
      times(z[12], w12), times(z[13], product(w12, w1)), times(z[14], product(w12, w2)), times(z[15], product(w12, w3)));
  }
  z = dft16(z);
  if (HAS_S) {
    z = dft16(array<vec4f, 16>(filtered(at, 0u, z[0]), filtered(at, 1u, z[1]), filtered(at, 2u, z[2]), filtered(at, 3u, z[3]),
      filtered(at, 4u, z[4]), filtered(at, 5u, z[5]), filtered(at, 6u, z[6]), filtered(at, 7u, z[7]),
      filtered(at, 8u, z[8]), filtered(at, 9u, z[9]), filtered(at, 10u, z[10]), filtered(at, 11u, z[11]),
      filtered(at, 12u, z[12]), filtered(at, 13u, z[13]), filtered(at, 14u, z[14]), filtered(at, 15u, z[15])));
  }
  output(at, 0u, z[0]);
  output(at, 1u, z[1]);
  output(at, 2u, z[2]);
  output(at, 3u, z[3]);
  output(at, 4u, z[4]);
  output(at, 5u, z[5]);
  output(at, 6u, z[6]);
  output(at, 7u, z[7]);
  output(at, 8u, z[8]);
  output(at, 9u, z[9]);
  output(at, 10u, z[10]);
  output(at, 11u, z[11]);
  output(at, 12u, z[12]);
  output(at, 13u, z[13]);
  output(at, 14u, z[14]);
  output(at, 15u, z[15]);
}
