// A grid N1 x N2 x N3 with its mirror images behind every axis of more than one token (CROP 0), or the first half of the mirrored
// grid along every axis (CROP 1): y[at] = x[mirrored at]. x [b, h, n, c], y [b, h, m, c]. One thread per WORDS channels.
typedef Words<WORDS == 4u>::Type Number;

// A place of a doubled axis of a side, seen in the mirror.
__device__ inline u32 folded(u32 at, u32 side) { return at >= side ? 2u * side - 1u - at : at; }

// An axis of one token has no mirror image.
__device__ inline constexpr u32 doubled(u32 side) { return side == 1u ? 1u : 2u * side; }

extern "C" __global__ void __launch_bounds__(THREADS) mirror_grid(
    Params params, const float* __restrict__ x, float* __restrict__ y) {
  const u32 width = params.c / WORDS;
  const size_t size = size_t(params.m) * width;
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 head = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= size) { return; }
  const u32 token = u32(item / width);
  constexpr u32 TO2 = CROP == 0u ? doubled(N2) : N2;
  constexpr u32 TO3 = CROP == 0u ? doubled(N3) : N3;
  const u32 at1 = token / TO3 / TO2;
  const u32 at2 = token / TO3 % TO2;
  const u32 at3 = token % TO3;
  const size_t source = CROP == 0u ? (size_t(folded(at1, N1)) * N2 + folded(at2, N2)) * N3 + folded(at3, N3)
                                   : (size_t(at1) * doubled(N2) + at2) * doubled(N3) + at3;
  const Number* from = reinterpret_cast<const Number*>(x) + (size_t(head) * params.n + source) * width;
  reinterpret_cast<Number*>(y)[head * size + item] = from[item % width];
}
