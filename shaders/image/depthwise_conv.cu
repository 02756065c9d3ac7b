// 3 x 3 convolution of every channel over the token grid, zeros outside, plus a residual.
// v, residual, out [b, h, rows, cols, e]; weight [h, e, 9], row by row from above left.
// A thread makes eight results of one channel, one below the other: 30 loads of v and 9 weights instead of 72 and 72.
constexpr u32 BELOW = 8u;

struct Neighbours {
  float left, here, right;
};

// The three neighbours of a row, left to right, of a channel that `v` points to; rows and columns outside the grid are zero.
__device__ inline Neighbours neighbours(const float* v, Params params, u32 row, u32 col) {
  Neighbours x = {0.0f, 0.0f, 0.0f};
  // The row above the first one is 2^32 - 1.
  if (row >= params.rows) { return x; }
  const float* const at = v + (size_t(row) * params.cols + col) * params.e;
  x.here = at[0];
  if (col > 0u) { x.left = *(at - params.e); }
  if (col + 1u < params.cols) { x.right = at[params.e]; }
  return x;
}

__device__ inline float product(const float* w, Neighbours x) { return (w[0] * x.left + w[1] * x.here) + w[2] * x.right; }

extern "C" __global__ void __launch_bounds__(THREADS) depthwise_conv(
    Params params, const float* __restrict__ v, const float* __restrict__ weight, const float* __restrict__ residual,
    float* __restrict__ out) {
  const size_t at = thread_number();
  const u32 strips = divided_up(params.rows, BELOW);
  if (at >= size_t(params.b) * params.h * strips * params.cols * params.e) { return; }
  const Place channel = place_of(at, params.e);
  const Place col = place_of(channel.row, params.cols);
  const Place strip = place_of(col.row, strips);
  const u32 head = u32(strip.row);
  const u32 row0 = strip.col * BELOW;
  const size_t inside = size_t(head) * params.rows * params.cols * params.e + channel.col;
  float w[9];
#pragma unroll
  for (u32 i = 0u; i < 9u; i++) { w[i] = weight[(size_t(head % params.h) * params.e + channel.col) * 9u + i]; }
  Neighbours above = neighbours(v + inside, params, row0 - 1u, col.col);
  Neighbours here = neighbours(v + inside, params, row0, col.col);
#pragma unroll
  for (u32 i = 0u; i < BELOW; i++) {
    const u32 row = row0 + i;
    if (row >= params.rows) { break; }
    const Neighbours below = neighbours(v + inside, params, row + 1u, col.col);
    float y = product(w, above) + product(w + 3, here) + product(w + 6, below);
    const size_t to = inside + (size_t(row) * params.cols + col.col) * params.e;
    if (HAS_RESIDUAL) { y += residual[to]; }
    out[to] = y;
    above = here;
    here = below;
  }
}
