fn butterfly(at: Place) {
  var z = array<vec4f, 8>(input(at, 0u), input(at, 1u), input(at, 2u), input(at, 3u),
    input(at, 4u), input(at, 5u), input(at, 6u), input(at, 7u));
  if (TWIDDLED) {
    let w = twiddles(at, 0u);
    let w1 = w.xy;
    let w2 = w.zw;
    let w3 = product(w1, w2);
    let w4 = twiddles(at, 1u).xy;
    z = array<vec4f, 8>(z[0], times(z[1], w1), times(z[2], w2), times(z[3], w3), times(z[4], w4),
      times(z[5], product(w4, w1)), times(z[6], product(w4, w2)), times(z[7], product(w4, w3)));
  }
  z = dft8(z);
  if (HAS_S) {
    z = dft8(array<vec4f, 8>(filtered(at, 0u, z[0]), filtered(at, 1u, z[1]), filtered(at, 2u, z[2]), filtered(at, 3u, z[3]),
      filtered(at, 4u, z[4]), filtered(at, 5u, z[5]), filtered(at, 6u, z[6]), filtered(at, 7u, z[7])));
  }
  output(at, 0u, z[0]);
  output(at, 1u, z[1]);
  output(at, 2u, z[2]);
  output(at, 3u, z[3]);
  output(at, 4u, z[4]);
  output(at, 5u, z[5]);
  output(at, 6u, z[6]);
  output(at, 7u, z[7]);
}
