// Cosines and sines of angles that are counted in parts of a whole turn, 2³² to a turn: no argument is ever large, and no driver's own
// functions are asked.
struct Waves { cosine: vec4f, sine: vec4f }

fn waves(turn: vec4u) -> Waves {
  let quarter = (turn + vec4u(0x20000000u)) >> vec4u(30u);
  let x = vec4f(bitcast<vec4i>(turn - (quarter << vec4u(30u)))) * 1.862645149230957e-9;
  let y = x * x;
  let sine = x * (0.785398185 + y * (-0.0807454363 + y * (0.00249000685 + y * -3.59543992e-5)));
  let cosine = 1.0 + y * (-0.308425128 + y * (0.0158543251 + y * (-3.25938599e-4 + y * 3.52980419e-6)));
  // A quarter turn takes (cosine, sine) to (−sine, cosine), a half one turns both around.
  let odd = (quarter & vec4u(1u)) != vec4u(0u);
  let sign = select(vec4f(1.0), vec4f(-1.0), (quarter & vec4u(2u)) != vec4u(0u));
  return Waves(sign * select(cosine, -sine, odd), sign * select(sine, cosine, odd));
}
