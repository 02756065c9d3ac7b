// Numbers from the words of a counter. MODE 0: Gaussians by the table [512] of an inverse distribution, 256 beginnings of pieces
// and then 256 slopes; 1: Gaussians of Box and Muller, in pairs; 2: signs. Modes 0 and 2 give the same bits everywhere.
__device__ inline float gaussian(const u32* __restrict__ table, u32 word) {
  const u32 v = word & 0x7fffffffu;
  // Behind the sign: a row of the table for each number of zeros from 0 to 31.
  const u32 zeros = u32(__clz(int(v))) - 1u;
  const u32 rest = (v << zeros) & 0x3fffffffu;
  const u32 piece = zeros * 8u + (rest >> 27);
  const int fraction = int((rest >> 14) & 0x1fffu);
  const int magnitude = int(table[piece]) + ((int(table[piece + 256u]) * fraction) >> 13);
  return float((word >> 31) != 0u ? -magnitude : magnitude) * 9.5367431640625e-7f;
}

// -2 ln(n / 2^24) for n from 1 to 2^24, with small numbers as precise as large ones.
__device__ inline float minus_two_ln(u32 n) {
  int exponent = 24 - (31 - __clz(int(n)));
  // In [1, 2), then in [1/sqrt 2, sqrt 2).
  float m = float(n << u32(exponent)) * 5.9604644775390625e-8f;
  if (m > 1.41421354f) {
    m *= 0.5f;
    exponent -= 1;
  }
  const float s = (m - 1.0f) / (m + 1.0f);
  const float z = s * s;
  const float terms = 0.4f + z * (0.285714286f + z * (0.222222222f + z * 0.181818182f));
  return 2.0f * (float(exponent) * 0.693147181f - s * (2.0f + z * (0.666666667f + z * terms)));
}

__device__ inline float4 numbers_of(const u32* __restrict__ table, uint4 words) {
  if (MODE == 0u) {
    return make_float4(gaussian(table, words.x), gaussian(table, words.y), gaussian(table, words.z), gaussian(table, words.w));
  }
  if (MODE == 1u) {
    const float2 a = wave_of(words.y & 0xffffff00u);
    const float2 b = wave_of(words.w & 0xffffff00u);
    const float near = sqrtf(minus_two_ln((words.x >> 8) + 1u));
    const float far = sqrtf(minus_two_ln((words.z >> 8) + 1u));
    return make_float4(near * a.x, near * a.y, far * b.x, far * b.y);
  }
  return make_float4(1.0f - 2.0f * float(words.x & 1u), 1.0f - 2.0f * float(words.y & 1u), 1.0f - 2.0f * float(words.z & 1u),
                     1.0f - 2.0f * float(words.w & 1u));
}
