// Numbers one by one or four at a time: a source that does the same to every word is written once for both. `Words<true>::Type`
// is what a thread moves where rows are whole fours.
template <bool FOUR> struct Words { typedef float Type; };
template <> struct Words<true> { typedef float4 Type; };

__device__ inline float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
__device__ inline float4 operator-(float4 a, float4 b) { return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w); }
__device__ inline float4 operator*(float a, float4 b) { return make_float4(a * b.x, a * b.y, a * b.z, a * b.w); }

// The same number everywhere.
template <typename T> __device__ inline T filled(float x);
template <> __device__ inline float filled<float>(float x) { return x; }
template <> __device__ inline float4 filled<float4>(float x) { return make_float4(x, x, x, x); }

// sum += factor x.
__device__ inline void add_scaled(float4& sum, float factor, float4 x) {
  sum.x += factor * x.x;
  sum.y += factor * x.y;
  sum.z += factor * x.z;
  sum.w += factor * x.w;
}

__device__ inline float sum_of(float4 x) { return (x.x + x.y) + (x.z + x.w); }
