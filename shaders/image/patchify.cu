// Patches of a picture as rows: one thread per number, so that neighbours read and write neighbours.
// image [rows, cols, channels], out [1, 1, n, p] with p = patch_size * patch_size * channels, channel fastest; edges repeat.

// The pixel of a side of `size` pixels at `inside` of a patch around a cell, counted from `before` on.
__device__ inline u32 pixel_of(u32 cell, u32 inside, u32 stride, u32 patch, u32 before, u32 size) {
  const int at = int(cell * stride + stride / 2u + inside) - int(patch / 2u) - int(before);
  return u32(min(max(at, 0), int(size) - 1));
}

extern "C" __global__ void __launch_bounds__(THREADS) patchify(
    Params params, const float* __restrict__ image, float* __restrict__ out) {
  const size_t at = thread_number();
  if (at >= size_t(params.n) * params.p) { return; }
  const Place number = place_of(at, params.p);
  const u32 token = params.first_token + u32(number.row);
  const u32 pixel = number.col / params.channels;
  const u32 channel = number.col % params.channels;
  const u32 side = params.patch_size;
  const u32 row = pixel_of(token / params.grid_cols, pixel / side, params.stride, side, params.first_row, params.rows);
  const u32 col = pixel_of(token % params.grid_cols, pixel % side, params.stride, side, 0u, params.cols);
  out[at] = image[(size_t(row) * params.cols + col) * params.channels + channel];
}
