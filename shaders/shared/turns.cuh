// Cosine (x) and sine (y) of an angle that is counted in parts of a whole turn, 2^32 to a turn: no argument is ever large, and
// the polynomials are those of turns.wgsl, so that both backends give the same waves.
__device__ inline float2 wave_of(u32 turn) {
  const u32 quarter = (turn + 0x20000000u) >> 30;
  // In eighths of a turn, from -1 to 1.
  const float x = float(int(turn - (quarter << 30))) * 1.862645149230957e-9f;
  const float y = x * x;
  const float sine = x * (0.785398185f + y * (-0.0807454363f + y * (0.00249000685f + y * -3.59543992e-5f)));
  const float cosine = 1.0f + y * (-0.308425128f + y * (0.0158543251f + y * (-3.25938599e-4f + y * 3.52980419e-6f)));
  // A quarter turn takes (cosine, sine) to (-sine, cosine), a half one turns both around.
  const bool odd = (quarter & 1u) != 0u;
  const float sign = (quarter & 2u) != 0u ? -1.0f : 1.0f;
  return make_float2(sign * (odd ? -sine : cosine), sign * (odd ? cosine : sine));
}
