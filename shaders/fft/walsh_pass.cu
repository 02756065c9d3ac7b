// Walsh-Hadamard transform of STAGES bits of the rows' numbers in shared memory: x, y [b, h, o, p, i, c], p = 2^STAGES rows that
// differ in those bits, LANES numbers of each (of WORDS words), up to four stages between barriers. With a spectrum [h or 1, k]
// the same bits are transformed back after every row was multiplied by the spectrum's entry for the ones in its number.
typedef Words<WORDS == 4u>::Type Number;

constexpr u32 POINTS = 1u << STAGES;

// COUNT stages from stage `bit` on, in registers.
template <u32 COUNT> __device__ inline void stages(Number* tile, u32 bit) {
  const u32 step = LANES << bit;
  for (u32 t = threadIdx.x; t < (POINTS >> COUNT) * LANES; t += THREADS) {
    const u32 point = t / LANES;
    const u32 low = point & ((1u << bit) - 1u);
    Number* own = tile + (((point - low) << COUNT) | low) * LANES + t % LANES;
    Number z[1u << COUNT];
#pragma unroll
    for (u32 j = 0u; j < 1u << COUNT; j++) { z[j] = own[j * step]; }
#pragma unroll
    for (u32 half = 1u; half < 1u << COUNT; half *= 2u) {
#pragma unroll
      for (u32 j = 0u; j < 1u << COUNT; j++) {
        if ((j & half) == 0u) {
          const Number a = z[j];
          z[j] = a + z[j + half];
          z[j + half] = a - z[j + half];
        }
      }
    }
#pragma unroll
    for (u32 j = 0u; j < 1u << COUNT; j++) { own[j * step] = z[j]; }
  }
  __syncthreads(); // the stages are complete before the next ones read them
}

__device__ inline void transform(Number* tile) {
  constexpr u32 FEW = STAGES % 4u;
  if (FEW == 1u) { stages<1u>(tile, 0u); }
  if (FEW == 2u) { stages<2u>(tile, 0u); }
  if (FEW == 3u) { stages<3u>(tile, 0u); }
  for (u32 bit = FEW; bit < STAGES; bit += 4u) { stages<4u>(tile, bit); }
}

extern "C" __global__ void __launch_bounds__(THREADS) walsh_pass(
    Params params, const float* __restrict__ x, const float* __restrict__ spectrum, float* __restrict__ y) {
  __shared__ Number tile[POINTS * LANES];
  const u32 width = params.c / WORDS;
  const u32 slices = divided_up(width, LANES);
  const size_t blocks_per_head = size_t(params.o) * params.i * slices;
  const u32 head = u32(blockIdx.x / blocks_per_head);
  const u32 own = u32(blockIdx.x % blocks_per_head);
  const u32 line = own / slices;
  const u32 lane0 = own % slices * LANES;
  // The line's first row: its number without the bits that are transformed.
  const u32 low = line & ((1u << FIRST) - 1u);
  const u32 row0 = ((line - low) << STAGES) | low;
  const size_t start = size_t(head) * params.o * params.p * params.i * width;
  const Number* from = reinterpret_cast<const Number*>(x) + start;
  Number* to = reinterpret_cast<Number*>(y) + start;
  for (u32 t = threadIdx.x; t < POINTS * LANES; t += THREADS) {
    const u32 lane = min(lane0 + t % LANES, width - 1u);
    tile[t] = from[(row0 + (size_t(t / LANES) << FIRST)) * width + lane];
  }
  __syncthreads(); // all rows are there before the first stage
  transform(tile);
  if (HAS_SPECTRUM) {
    const float* own_spectrum = spectrum + (params.tables > 1u ? size_t(head % params.h) * params.k : size_t(0));
    for (u32 t = threadIdx.x; t < POINTS * LANES; t += THREADS) {
      tile[t] = own_spectrum[__popc(row0 + ((t / LANES) << FIRST))] * tile[t];
    }
    __syncthreads(); // every row is multiplied before it is transformed back
    transform(tile);
  }
  for (u32 t = threadIdx.x; t < POINTS * LANES; t += THREADS) {
    const u32 lane = lane0 + t % LANES;
    if (lane < width) { to[(row0 + (size_t(t / LANES) << FIRST)) * width + lane] = tile[t]; }
  }
}
