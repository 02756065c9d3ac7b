// Transforms of a few complex numbers in registers. A number is a float2, or a float4 that holds those of two neighbouring lines:
// (re, im, re, im).
__device__ inline float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ inline float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ inline float2 operator*(float a, float2 b) { return make_float2(a * b.x, a * b.y); }

__device__ inline float2 product(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

__device__ inline float2 times(float2 z, float2 w) { return product(z, w); }
__device__ inline float4 times(float4 z, float2 w) {
  return make_float4(z.x * w.x - z.y * w.y, z.y * w.x + z.x * w.y, z.z * w.x - z.w * w.y, z.w * w.x + z.z * w.y);
}

// Times -i.
__device__ inline float2 turned(float2 z) { return make_float2(z.y, -z.x); }
__device__ inline float4 turned(float4 z) { return make_float4(z.y, -z.x, z.w, -z.z); }

// Real and imaginary parts exchanged: an inverse transform is a forward one between two of these.
__device__ inline float2 swapped(float2 z) { return make_float2(z.y, z.x); }
__device__ inline float4 swapped(float4 z) { return make_float4(z.y, z.x, z.w, z.z); }

// cos(2 pi k / 64) for k from 0 to 16.
__device__ constexpr float cosine_to_quarter(u32 k) {
  return k == 0u ? 1.0f : k == 1u ? 0.99518472667219693f : k == 2u ? 0.98078528040323043f : k == 3u ? 0.95694033573220882f
    : k == 4u ? 0.92387953251128674f : k == 5u ? 0.88192126434835505f : k == 6u ? 0.83146961230254524f
    : k == 7u ? 0.77301045336273699f : k == 8u ? 0.70710678118654757f : k == 9u ? 0.63439328416364549f
    : k == 10u ? 0.55557023301960218f : k == 11u ? 0.47139673682599764f : k == 12u ? 0.38268343236508978f
    : k == 13u ? 0.29028467725446233f : k == 14u ? 0.19509032201612825f : k == 15u ? 0.098017140329560604f : 0.0f;
}

__device__ constexpr float cosine_of(u32 k) {
  return k % 64u > 32u ? cosine_of(64u - k % 64u)
    : k % 64u > 16u ? -cosine_to_quarter(32u - k % 64u) : cosine_to_quarter(k % 64u);
}

// Times exp(-2 pi i k / 64). Where k is known at compile time only one of the ways is left.
template <typename Z> __device__ inline Z rotated(Z z, u32 k) {
  constexpr float HALF_ROOT = 0.70710678118654757f;
  if (k == 0u) { return z; }
  if (k == 8u) { return HALF_ROOT * (z + turned(z)); }
  if (k == 16u) { return turned(z); }
  if (k == 24u) { return HALF_ROOT * (turned(z) - z); }
  return times(z, make_float2(cosine_of(k), cosine_of(k + 16u)));
}

// dft(z): z[k] becomes the sum over j of z[j] exp(-2 pi i j k / R), for R numbers.
template <typename Z> __device__ inline void dft(Z (&)[1]) {}

template <typename Z> __device__ inline void dft(Z (&z)[2]) {
  const Z a = z[0];
  z[0] = a + z[1];
  z[1] = a - z[1];
}

template <typename Z> __device__ inline void dft(Z (&z)[3]) {
  const Z s = z[1] + z[2];
  const Z t = z[0] - 0.5f * s;
  const Z u = 0.8660254037844386f * turned(z[1] - z[2]);
  z[0] = z[0] + s;
  z[1] = t + u;
  z[2] = t - u;
}

template <typename Z> __device__ inline void dft(Z (&z)[4]) {
  const Z s = z[0] + z[2];
  const Z t = z[0] - z[2];
  const Z u = z[1] + z[3];
  const Z v = turned(z[1] - z[3]);
  z[0] = s + u;
  z[1] = t + v;
  z[2] = s - u;
  z[3] = t - v;
}

template <typename Z> __device__ inline void dft(Z (&z)[8]);

// A transforms of B numbers that lie A apart, factors, and B transforms of A numbers.
template <u32 A, u32 B, typename Z> __device__ inline void dft_of(Z (&z)[A * B]) {
  Z columns[A][B];
#pragma unroll
  for (u32 a = 0u; a < A; a++) {
#pragma unroll
    for (u32 b = 0u; b < B; b++) { columns[a][b] = z[a + A * b]; }
    dft(columns[a]);
  }
#pragma unroll
  for (u32 b = 0u; b < B; b++) {
    Z row[A];
#pragma unroll
    for (u32 a = 0u; a < A; a++) { row[a] = rotated(columns[a][b], a * b * (64u / (A * B))); }
    dft(row);
#pragma unroll
    for (u32 a = 0u; a < A; a++) { z[b + B * a] = row[a]; }
  }
}

template <typename Z> __device__ inline void dft(Z (&z)[8]) { dft_of<2u, 4u>(z); }
template <typename Z> __device__ inline void dft(Z (&z)[16]) { dft_of<4u, 4u>(z); }
template <typename Z> __device__ inline void dft(Z (&z)[32]) { dft_of<4u, 8u>(z); }
template <typename Z> __device__ inline void dft(Z (&z)[64]) { dft_of<8u, 8u>(z); }
