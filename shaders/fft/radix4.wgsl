fn butterfly(at: Place) {
  let a = input(at, 0u);
  var b = input(at, 1u);
  var c = input(at, 2u);
  var d = input(at, 3u);
  if (TWIDDLED) {
    let w = twiddles(at, 0u);
    b = times(b, w.xy);
    c = times(c, w.zw);
    d = times(d, product(w.xy, w.zw));
  }
  var z = dft4(a, b, c, d);
  if (HAS_S) { z = dft4(filtered(at, 0u, z[0]), filtered(at, 1u, z[1]), filtered(at, 2u, z[2]), filtered(at, 3u, z[3])); }
  output(at, 0u, z[0]);
  output(at, 1u, z[1]);
  output(at, 2u, z[2]);
  output(at, 3u, z[3]);
}
