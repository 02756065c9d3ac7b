fn butterfly(at: Place) {
  var a = input(at, 0u);
  var b = input(at, 1u);
  if (TWIDDLED) { b = times(b, twiddles(at, 0u).xy); }
  if (HAS_S) {
    let c = filtered(at, 0u, a + b);
    b = filtered(at, 1u, a - b);
    a = c;
  }
  output(at, 0u, a + b);
  output(at, 1u, a - b);
}
