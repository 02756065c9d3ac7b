fn dft3(a: vec4f, b: vec4f, c: vec4f) -> array<vec4f, 3> {
  let s = b + c;
  let t = a - 0.5 * s;
  let u = turned(b - c) * 0.8660254037844386;
  return array<vec4f, 3>(a + s, t + u, t - u);
}

fn butterfly(at: Place) {
  let a = input(at, 0u);
  var b = input(at, 1u);
  var c = input(at, 2u);
  if (TWIDDLED) {
    let w = twiddles(at, 0u);
    b = times(b, w.xy);
    c = times(c, w.zw);
  }
  var z = dft3(a, b, c);
  if (HAS_S) { z = dft3(filtered(at, 0u, z[0]), filtered(at, 1u, z[1]), filtered(at, 2u, z[2])); }
  output(at, 0u, z[0]);
  output(at, 1u, z[1]);
  output(at, 2u, z[2]);
}
