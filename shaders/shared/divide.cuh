// Division by a number that many are divided by: rounded like x / by, but without the branch for rare numbers in every division,
// whose call makes a thread's registers spill.
struct Divisor {
  float up; // lifts divisors whose inverse would be infinite, and what they divide
  float by;
  float inverse;
};

__device__ inline Divisor divisor_of(float by) {
  Divisor d;
  d.up = fabsf(by) < 1e-30f ? 18446744073709551616.0f : 1.0f;
  d.by = by * d.up;
  d.inverse = 1.0f / d.by;
  return d;
}

__device__ inline float divided(float x, Divisor d) {
  const float lifted = x * d.up;
  const float quotient = lifted * d.inverse;
  const float better = fmaf(fmaf(-quotient, d.by, lifted), d.inverse, quotient);
  // Where something is infinite, what is left over is no number.
  return better == better ? better : quotient;
}
