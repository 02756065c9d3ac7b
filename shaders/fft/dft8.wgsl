fn dft8(z: array<vec4f, 8>) -> array<vec4f, 8> {
  let e = dft4(z[0], z[2], z[4], z[6]);
  let o = dft4(z[1], z[3], z[5], z[7]);
  let a = (o[1] + turned(o[1])) * 0.7071067811865476;
  let b = turned(o[2]);
  let c = (turned(o[3]) - o[3]) * 0.7071067811865476;
  return array<vec4f, 8>(e[0] + o[0], e[1] + a, e[2] + b, e[3] + c, e[0] - o[0], e[1] - a, e[2] - b, e[3] - c);
}
