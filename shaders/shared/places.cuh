// Where the numbers of a tensor are.

// Row and column of number `at` of rows of `width`: a division of 32 bits wherever that is enough.
struct Place {
  size_t row;
  u32 col;
};

__device__ inline Place place_of(size_t at, u32 width) {
  Place place;
  place.row = at >> 32u == 0u ? size_t(u32(at) / width) : at / width;
  place.col = u32(at - place.row * width);
  return place;
}

// The number of this thread among all threads.
__device__ inline size_t thread_number() { return size_t(blockIdx.x) * THREADS + threadIdx.x; }

// One number or four, which then begin at a whole float4.
template <u32 N> __device__ inline void load_numbers(float (&x)[N], const float* from) {
  if (N == 4u) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    x[0] = four.x;
    x[N / 4u] = four.y;
    x[N / 2u] = four.z;
    x[N - 1u] = four.w;
  } else {
    x[0] = *from;
  }
}

template <u32 N> __device__ inline void store_numbers(float* to, const float (&x)[N]) {
  if (N == 4u) {
    *reinterpret_cast<float4*>(to) = make_float4(x[0], x[N / 4u], x[N / 2u], x[N - 1u]);
  } else {
    *to = x[0];
  }
}
