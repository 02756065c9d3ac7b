// (cos x, sin x) with an absolute error of about 1e-7 for |x| <= 1e5, by the same steps as in wave.wgsl, so that both backends
// give the same numbers and long reductions of the argument are never compiled. Larger angles have no digits left in f32: they
// count as 0. x = k pi/2 + r; pi/2 is split so that k times its first part is exact.
__device__ inline float2 wave(float x) {
  const float angle = fabsf(x) <= 1e5f ? x : 0.0f;
  const float k = floorf(angle * 0.636619772f + 0.5f);
  const float r = ((angle - k * 1.5703125f) - k * 4.8375129699707031e-4f) - k * 7.5497899548918821e-8f;
  // Minimax on an eighth of a turn either way, in units of it.
  const float y = r * 1.27323954f;
  const float z = y * y;
  const float s = y * (0.785398185f - z * (0.0807454363f - z * (0.00249000685f - z * 3.59543992e-5f)));
  const float c = 1.0f - z * (0.308425128f - z * (0.0158543251f - z * (3.25938599e-4f - z * 3.52980419e-6f)));
  const u32 quarter = u32(int(k) & 3);
  const bool odd = (quarter & 1u) != 0u;
  const float cosine = odd ? -s : c;
  const float sine = odd ? c : s;
  return quarter >= 2u ? make_float2(-cosine, -sine) : make_float2(cosine, sine);
}
