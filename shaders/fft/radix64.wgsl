// A whole transform of 64 numbers, so without twiddles: 8 of 8, factors, 8 of 8.
fn dft64(z: array<vec4f, 64>) -> array<vec4f, 64> {
  let c0 = dft8(array<vec4f, 8>(z[0], z[8], z[16], z[24], z[32], z[40], z[48], z[56]));
  let c1 = dft8(array<vec4f, 8>(z[1], z[9], z[17], z[25], z[33], z[41], z[49], z[57]));
  let c2 = dft8(array<vec4f, 8>(z[2], z[10], z[18], z[26], z[34], z[42], z[50], z[58]));
  let c3 = dft8(array<vec4f, 8>(z[3], z[11], z[19], z[27], z[35], z[43], z[51], z[59]));
  let c4 = dft8(array<vec4f, 8>(z[4], z[12], z[20], z[28], z[36], z[44], z[52], z[60]));
  let c5 = dft8(array<vec4f, 8>(z[5], z[13], z[21], z[29], z[37], z[45], z[53], z[61]));
  let c6 = dft8(array<vec4f, 8>(z[6], z[14], z[22], z[30], z[38], z[46], z[54], z[62]));
  let c7 = dft8(array<vec4f, 8>(z[7], z[15], z[23], z[31], z[39], z[47], z[55], z[63]));
  let r0 = dft8(array<vec4f, 8>(
    c0[0], c1[0],
    c2[0], c3[0],
    c4[0], c5[0],
    c6[0], c7[0]));
  let r1 = dft8(array<vec4f, 8>(
    c0[1], times(c1[1], vec2f(0.99518472667219693, -0.098017140329560604)),
    times(c2[1], vec2f(0.98078528040323043, -0.19509032201612825)), times(c3[1], vec2f(0.95694033573220882, -0.29028467725446233)),
    times(c4[1], vec2f(0.92387953251128674, -0.38268343236508978)), times(c5[1], vec2f(0.88192126434835505, -0.47139673682599764)),
    times(c6[1], vec2f(0.83146961230254524, -0.55557023301960218)), times(c7[1], vec2f(0.77301045336273699, -0.63439328416364549))));
  let r2 = dft8(array<vec4f, 8>(
    c0[2], times(c1[2], vec2f(0.98078528040323043, -0.19509032201612825)),
    times(c2[2], vec2f(0.92387953251128674, -0.38268343236508978)), times(c3[2], vec2f(0.83146961230254524, -0.55557023301960218)),
    times(c4[2], vec2f(0.70710678118654757, -0.70710678118654746)), times(c5[2], vec2f(0.55557023301960229, -0.83146961230254524)),
    times(c6[2], vec2f(0.38268343236508984, -0.92387953251128674)), times(c7[2], vec2f(0.19509032201612833, -0.98078528040323043))));
  let r3 = dft8(array<vec4f, 8>(
    c0[3], times(c1[3], vec2f(0.95694033573220882, -0.29028467725446233)),
    times(c2[3], vec2f(0.83146961230254524, -0.55557023301960218)), times(c3[3], vec2f(0.63439328416364549, -0.77301045336273699)),
    times(c4[3], vec2f(0.38268343236508984, -0.92387953251128674)), times(c5[3], vec2f(0.09801714032956077, -0.99518472667219682)),
    times(c6[3], vec2f(-0.19509032201612819, -0.98078528040323043)), times(c7[3], vec2f(-0.4713967368259977, -0.88192126434835505))));
  let r4 = dft8(array<vec4f, 8>(
    c0[4], times(c1[4], vec2f(0.92387953251128674, -0.38268343236508978)),
    times(c2[4], vec2f(0.70710678118654757, -0.70710678118654746)), times(c3[4], vec2f(0.38268343236508984, -0.92387953251128674)),
    turned(c4[4]), times(c5[4], vec2f(-0.38268343236508973, -0.92387953251128674)),
    times(c6[4], vec2f(-0.70710678118654746, -0.70710678118654757)), times(c7[4], vec2f(-0.92387953251128674, -0.38268343236508989))));
  let r5 = dft8(array<vec4f, 8>(
    c0[5], times(c1[5], vec2f(0.88192126434835505, -0.47139673682599764)),
    times(c2[5], vec2f(0.55557023301960229, -0.83146961230254524)), times(c3[5], vec2f(0.09801714032956077, -0.99518472667219682)),
    times(c4[5], vec2f(-0.38268343236508973, -0.92387953251128674)), times(c5[5], vec2f(-0.77301045336273699, -0.63439328416364549)),
    times(c6[5], vec2f(-0.98078528040323043, -0.19509032201612861)), times(c7[5], vec2f(-0.95694033573220894, 0.29028467725446211))));
  let r6 = dft8(array<vec4f, 8>(
    c0[6], times(c1[6], vec2f(0.83146961230254524, -0.55557023301960218)),
    times(c2[6], vec2f(0.38268343236508984, -0.92387953251128674)), times(c3[6], vec2f(-0.19509032201612819, -0.98078528040323043)),
    times(c4[6], vec2f(-0.70710678118654746, -0.70710678118654757)), times(c5[6], vec2f(-0.98078528040323043, -0.19509032201612861)),
    times(c6[6], vec2f(-0.92387953251128685, 0.38268343236508967)), times(c7[6], vec2f(-0.55557023301960218, 0.83146961230254524))));
  let r7 = dft8(array<vec4f, 8>(
    c0[7], times(c1[7], vec2f(0.77301045336273699, -0.63439328416364549)),
    times(c2[7], vec2f(0.19509032201612833, -0.98078528040323043)), times(c3[7], vec2f(-0.4713967368259977, -0.88192126434835505)),
    times(c4[7], vec2f(-0.92387953251128674, -0.38268343236508989)), times(c5[7], vec2f(-0.95694033573220894, 0.29028467725446211)),
    times(c6[7], vec2f(-0.55557023301960218, 0.83146961230254524)), times(c7[7], vec2f(0.09801714032956009, 0.99518472667219693))));
  return array<vec4f, 64>(
    r0[0], r1[0], r2[0], r3[0], r4[0], r5[0], r6[0], r7[0],
    r0[1], r1[1], r2[1], r3[1], r4[1], r5[1], r6[1], r7[1],
    r0[2], r1[2], r2[2], r3[2], r4[2], r5[2], r6[2], r7[2],
    r0[3], r1[3], r2[3], r3[3], r4[3], r5[3], r6[3], r7[3],
    r0[4], r1[4], r2[4], r3[4], r4[4], r5[4], r6[4], r7[4],
    r0[5], r1[5], r2[5], r3[5], r4[5], r5[5], r6[5], r7[5],
    r0[6], r1[6], r2[6], r3[6], r4[6], r5[6], r6[6], r7[6],
    r0[7], r1[7], r2[7], r3[7], r4[7], r5[7], r6[7], r7[7]);
}

fn butterfly(at: Place) {
  var z = array<vec4f, 64>(
    input(at, 0u), input(at, 1u), input(at, 2u), input(at, 3u),
    input(at, 4u), input(at, 5u), input(at, 6u), input(at, 7u),
    input(at, 8u), input(at, 9u), input(at, 10u), input(at, 11u),
    input(at, 12u), input(at, 13u), input(at, 14u), input(at, 15u),
    input(at, 16u), input(at, 17u), input(at, 18u), input(at, 19u),
    input(at, 20u), input(at, 21u), input(at, 22u), input(at, 23u),
    input(at, 24u), input(at, 25u), input(at, 26u), input(at, 27u),
    input(at, 28u), input(at, 29u), input(at, 30u), input(at, 31u),
    input(at, 32u), input(at, 33u), input(at, 34u), input(at, 35u),
    input(at, 36u), input(at, 37u), input(at, 38u), input(at, 39u),
    input(at, 40u), input(at, 41u), input(at, 42u), input(at, 43u),
    input(at, 44u), input(at, 45u), input(at, 46u), input(at, 47u),
    input(at, 48u), input(at, 49u), input(at, 50u), input(at, 51u),
    input(at, 52u), input(at, 53u), input(at, 54u), input(at, 55u),
    input(at, 56u), input(at, 57u), input(at, 58u), input(at, 59u),
    input(at, 60u), input(at, 61u), input(at, 62u), input(at, 63u));
  z = dft64(z);
  if (HAS_S) {
    z = dft64(array<vec4f, 64>(
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
      filtered(at, 30u, z[30]), filtered(at, 31u, z[31]), filtered(at, 32u, z[32]),
      filtered(at, 33u, z[33]), filtered(at, 34u, z[34]), filtered(at, 35u, z[35]),
      filtered(at, 36u, z[36]), filtered(at, 37u, z[37]), filtered(at, 38u, z[38]),
      filtered(at, 39u, z[39]), filtered(at, 40u, z[40]), filtered(at, 41u, z[41]),
      filtered(at, 42u, z[42]), filtered(at, 43u, z[43]), filtered(at, 44u, z[44]),
      filtered(at, 45u, z[45]), filtered(at, 46u, z[46]), filtered(at, 47u, z[47]),
      filtered(at, 48u, z[48]), filtered(at, 49u, z[49]), filtered(at, 50u, z[50]),
      filtered(at, 51u, z[51]), filtered(at, 52u, z[52]), filtered(at, 53u, z[53]),
      filtered(at, 54u, z[54]), filtered(at, 55u, z[55]), filtered(at, 56u, z[56]),
      filtered(at, 57u, z[57]), filtered(at, 58u, z[58]), filtered(at, 59u, z[59]),
      filtered(at, 60u, z[60]), filtered(at, 61u, z[61]), filtered(at, 62u, z[62]),
      filtered(at, 63u, z[63])));
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
  output(at, 32u, z[32]);
  output(at, 33u, z[33]);
  output(at, 34u, z[34]);
  output(at, 35u, z[35]);
  output(at, 36u, z[36]);
  output(at, 37u, z[37]);
  output(at, 38u, z[38]);
  output(at, 39u, z[39]);
  output(at, 40u, z[40]);
  output(at, 41u, z[41]);
  output(at, 42u, z[42]);
  output(at, 43u, z[43]);
  output(at, 44u, z[44]);
  output(at, 45u, z[45]);
  output(at, 46u, z[46]);
  output(at, 47u, z[47]);
  output(at, 48u, z[48]);
  output(at, 49u, z[49]);
  output(at, 50u, z[50]);
  output(at, 51u, z[51]);
  output(at, 52u, z[52]);
  output(at, 53u, z[53]);
  output(at, 54u, z[54]);
  output(at, 55u, z[55]);
  output(at, 56u, z[56]);
  output(at, 57u, z[57]);
  output(at, 58u, z[58]);
  output(at, 59u, z[59]);
  output(at, 60u, z[60]);
  output(at, 61u, z[61]);
  output(at, 62u, z[62]);
  output(at, 63u, z[63]);
}
