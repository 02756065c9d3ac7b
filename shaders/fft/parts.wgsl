// What all radices share. A vec4f holds two complex numbers, those of two neighbouring lines: (re, im, re, im).

// x / d for quotients below 2^21 and x below 2^31: software drivers divide integers lane by lane, floats eight at a time.
fn divide(x: u32, d: u32) -> u32 {
  let near = u32(f32(i32(x)) / f32(i32(d)));
  let rest = i32(x) - i32(near * d);
  return select(select(near, near + 1u, rest >= i32(d)), near - 1u, rest < 0);
}

// Both numbers times w.
fn times(z: vec4f, w: vec2f) -> vec4f { return z * w.x + vec4f(-z.y, z.x, -z.w, z.z) * w.y; }

fn product(a: vec2f, b: vec2f) -> vec2f { return vec2f(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

// Both numbers times -i.
fn turned(z: vec4f) -> vec4f { return vec4f(z.y, -z.x, z.w, -z.z); }

// Real and imaginary parts exchanged: an inverse transform is a forward one between two of these.
fn swapped(z: vec4f) -> vec4f { return z.yxwz; }

fn dft4(a: vec4f, b: vec4f, c: vec4f, d: vec4f) -> array<vec4f, 4> {
  let s = a + c;
  let t = a - c;
  let u = b + d;
  let v = turned(b - d);
  return array<vec4f, 4>(s + u, t + v, s - u, t - v);
}
