// A transform of 32 numbers: 4 of 8, factors, 8 of 4.
fn dft32(z: array<vec4f, 32>) -> array<vec4f, 32> {
  let c0 = dft8(array<vec4f, 8>(z[0], z[4], z[8], z[12], z[16], z[20], z[24], z[28]));
  let c1 = dft8(array<vec4f, 8>(z[1], z[5], z[9], z[13], z[17], z[21], z[25], z[29]));
  let c2 = dft8(array<vec4f, 8>(z[2], z[6], z[10], z[14], z[18], z[22], z[26], z[30]));
  let c3 = dft8(array<vec4f, 8>(z[3], z[7], z[11], z[15], z[19], z[23], z[27], z[31]));
  let r0 = dft4(
    c0[0], c1[0],
    c2[0], c3[0]);
  let r1 = dft4(
    c0[1], times(c1[1], vec2f(0.98078528040323043, -0.19509032201612825)),
    times(c2[1], vec2f(0.92387953251128674, -0.38268343236508978)), times(c3[1], vec2f(0.83146961230254524, -0.55557023301960218)));
  let r2 = dft4(
    c0[2], times(c1[2], vec2f(0.92387953251128674, -0.38268343236508978)),
    times(c2[2], vec2f(0.70710678118654757, -0.70710678118654746)), times(c3[2], vec2f(0.38268343236508984, -0.92387953251128674)));
  let r3 = dft4(
    c0[3], times(c1[3], vec2f(0.83146961230254524, -0.55557023301960218)),
    times(c2[3], vec2f(0.38268343236508984, -0.92387953251128674)), times(c3[3], vec2f(-0.19509032201612819, -0.98078528040323043)));
  let r4 = dft4(
    c0[4], times(c1[4], vec2f(0.70710678118654757, -0.70710678118654746)),
    turned(c2[4]), times(c3[4], vec2f(-0.70710678118654746, -0.70710678118654757)));
  let r5 = dft4(
    c0[5], times(c1[5], vec2f(0.55557023301960229, -0.83146961230254524)),
    times(c2[5], vec2f(-0.38268343236508973, -0.92387953251128674)), times(c3[5], vec2f(-0.98078528040323043, -0.19509032201612861)));
  let r6 = dft4(
    c0[6], times(c1[6], vec2f(0.38268343236508984, -0.92387953251128674)),
    times(c2[6], vec2f(-0.70710678118654746, -0.70710678118654757)), times(c3[6], vec2f(-0.92387953251128685, 0.38268343236508967)));
  let r7 = dft4(
    c0[7], times(c1[7], vec2f(0.19509032201612833, -0.98078528040323043)),
    times(c2[7], vec2f(-0.92387953251128674, -0.38268343236508989)), times(c3[7], vec2f(-0.55557023301960218, 0.83146961230254524)));
  return array<vec4f, 32>(
    r0[0], r1[0], r2[0], r3[0], r4[0], r5[0], r6[0], r7[0],
    r0[1], r1[1], r2[1], r3[1], r4[1], r5[1], r6[1], r7[1],
    r0[2], r1[2], r2[2], r3[2], r4[2], r5[2], r6[2], r7[2],
    r0[3], r1[3], r2[3], r3[3], r4[3], r5[3], r6[3], r7[3]);
}

fn butterfly(at: Place) {
  var z = array<vec4f, 32>(
    input(at, 0u), input(at, 1u), input(at, 2u), input(at, 3u),
    input(at, 4u), input(at, 5u), input(at, 6u), input(at, 7u),
    input(at, 8u), input(at, 9u), input(at, 10u), input(at, 11u),
    input(at, 12u), input(at, 13u), input(at, 14u), input(at, 15u),
    input(at, 16u), input(at, 17u), input(at, 18u), input(at, 19u),
    input(at, 20u), input(at, 21u), input(at, 22u), input(at, 23u),
    input(at, 24u), input(at, 25u), input(at, 26u), input(at, 27u),
    input(at, 28u), input(at, 29u), input(at, 30u), input(at, 31u));
  if (TWIDDLED) {
    // w to w^7, then the multiples of 8: every other power is one product.
    let t0 = twiddles(at, 0u);
    let t1 = twiddles(at, 1u);
    let t2 = twiddles(at, 2u);
    let t3 = twiddles(at, 3u);
    let t4 = twiddles(at, 4u);
    let w1 = t0.xy;
    let w2 = t0.zw;
    let w3 = t1.xy;
    let w4 = t1.zw;
    let w5 = t2.xy;
    let w6 = t2.zw;
    let w7 = t3.xy;
    let w8 = t3.zw;
    let w16 = t4.xy;
    let w24 = t4.zw;
    z = array<vec4f, 32>(
      z[0], times(z[1], w1), times(z[2], w2),
      times(z[3], w3), times(z[4], w4), times(z[5], w5),
      times(z[6], w6), times(z[7], w7), times(z[8], w8),
      times(z[9], product(w8, w1)), times(z[10], product(w8, w2)), times(z[11], product(w8, w3)),
      times(z[12], product(w8, w4)), times(z[13], product(w8, w5)), times(z[14], product(w8, w6)),
      times(z[15], product(w8, w7)), times(z[16], w16), times(z[17], product(w16, w1)),
      times(z[18], product(w16, w2)), times(z[19], product(w16, w3)), times(z[20], product(w16, w4)),
      times(z[21], product(w16, w5)), times(z[22], product(w16, w6)), times(z[23], product(w16, w7)),
      times(z[24], w24), times(z[25], product(w24, w1)), times(z[26], product(w24, w2)),
      times(z[27], product(w24, w3)), times(z[28], product(w24, w4)), times(z[29], product(w24, w5)),
      times(z[30], product(w24, w6)), times(z[31], product(w24, w7)));
  }
  z = dft32(z);
  if (HAS_S) {
    z = dft32(array<vec4f, 32>(
      filtered(at, 0u, z[0]), filtered(at, 1u, z[1]), filtered(at, 2u, z[2]),
      filtered(at, 3u, z[3]), filtered(at, 4u, z[4]), filtered(at, 5u, z[5]),
      filtered(at, 6u, z[6]), filtered(at, 7u, z[7]), filtered(at, 8u, z[8]),
      filtered(at, 9u, z[9]), filtered(at, 10u, z[10]), filtered(at, 11u, z[11]),
      filtered(at, 12u, z[12]), filtered(at, 13u, z[13]), filtered(at, 14u, z[14]),
      filtered(at, 15u, z[15]), filtered(at, 16u, z[16]), filtered(at, 17u, z[17]),
      filtered(at, 18u, z[18]), filtered(at, 19u, z[19]), filtered(at, 20u, z[20]),
      filtered(at, 21u, z[21]), filtered(at, 22u, z[22]), filtered(at, 23u, z[23]),
      filtered(at, 24u, z[24]), filtered(at, 25u, z[25]), filtered(at, 26u, z[26]),
      filtered(at, 27u, z[27]), filtered(at, 28u, z[28]), filtered(at, 29u, z[29]),
      filtered(at, 30u, z[30]), filtered(at, 31u, z[31])));
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
  output(at, 16u, z[16]);
  output(at, 17u, z[17]);
  output(at, 18u, z[18]);
  output(at, 19u, z[19]);
  output(at, 20u, z[20]);
  output(at, 21u, z[21]);
  output(at, 22u, z[22]);
  output(at, 23u, z[23]);
  output(at, 24u, z[24]);
  output(at, 25u, z[25]);
  output(at, 26u, z[26]);
  output(at, 27u, z[27]);
  output(at, 28u, z[28]);
  output(at, 29u, z[29]);
  output(at, 30u, z[30]);
  output(at, 31u, z[31]);
}
