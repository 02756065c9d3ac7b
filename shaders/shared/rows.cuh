// Rows of a tensor on their way to registers, a float4 at a time. FOURS says that rows are whole ones.

// Four numbers of the row at `line` from `col` on, zeros past its `width` or where it is not `there`.
__device__ inline float4 four_of(const float* line, u32 col, u32 width, bool there) {
  float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (!there || col >= width) { return x; }
  if (FOURS) { return *reinterpret_cast<const float4*>(line + col); }
  x.x = line[col];
  if (col + 1u < width) { x.y = line[col + 1u]; }
  if (col + 2u < width) { x.z = line[col + 2u]; }
  if (col + 3u < width) { x.w = line[col + 3u]; }
  return x;
}

// Puts four features of a row into a tile whose lines are features, `apart` numbers from each other.
__device__ inline void put_turned(float* tile, u32 apart, float4 x) {
  tile[0] = x.x;
  tile[apart] = x.y;
  tile[2u * apart] = x.z;
  tile[3u * apart] = x.w;
}

// Which row and which four of 32 features a thread moves in a round of THREADS: pairs of lanes take whole sectors of a row, and
// with lines of 4 numbers more than a multiple of 32 a warp's 32 numbers go to 32 banks.
__device__ inline u32 turned_row(u32 t) { return t / 2u % 16u + t / 128u * 16u; }
__device__ inline u32 turned_four(u32 t) { return t % 2u + t / 32u % 4u * 2u; }

// Neighbouring numbers of shared memory in one load; they begin at a multiple of as many.
template <u32 COUNT> struct Run;
template <> struct Run<1> { typedef float Type; };
template <> struct Run<2> { typedef float2 Type; };
template <> struct Run<4> { typedef float4 Type; };

template <u32 COUNT> __device__ inline void read_run(float (&numbers)[COUNT], const float* from) {
  typedef typename Run<COUNT>::Type Together;
  const Together x = *reinterpret_cast<const Together*>(from);
  const float* parts = reinterpret_cast<const float*>(&x);
#pragma unroll
  for (u32 i = 0u; i < COUNT; i++) { numbers[i] = parts[i]; }
}

template <u32 COUNT> __device__ inline void write_run(float* to, const float (&numbers)[COUNT]) {
  typedef typename Run<COUNT>::Type Together;
  Together x;
  float* parts = reinterpret_cast<float*>(&x);
#pragma unroll
  for (u32 i = 0u; i < COUNT; i++) { parts[i] = numbers[i]; }
  *reinterpret_cast<Together*>(to) = x;
}
