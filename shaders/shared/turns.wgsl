// Cosine and sine of an angle that is counted in whole turns of 2³²: no argument is ever large, and no driver's own functions are asked.
fn waves(turn: u32) -> vec2f {
  let quarter = (turn + 0x20000000u) >> 30u;
  let x = f32(bitcast<i32>(turn - (quarter << 30u))) * 1.862645149230957e-9;
  let y = x * x;
  let sine = x * (0.785398185 + y * (-0.0807454363 + y * (0.00249000685 + y * -3.59543992e-5)));
  let cosine = 1.0 + y * (-0.308425128 + y * (0.0158543251 + y * (-3.25938599e-4 + y * 3.52980419e-6)));
  // A quarter turn takes (cosine, sine) to (−sine, cosine).
  let odd = (quarter & 1u) != 0u;
  var wave = select(vec2f(cosine, sine), vec2f(-sine, cosine), odd);
  if ((quarter & 2u) != 0u) { wave = -wave; }
  return wave;
}
