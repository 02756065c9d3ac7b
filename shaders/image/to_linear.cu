// out[row, col, :] = alpha linear(rgb) + 1 - alpha: display bytes over white, in linear light. One thread per pixel.
// pixels [rows, cols], out [rows, cols, 3].

// x^(12/5) for x in [0.09, 1], by the same steps as in to_linear.wgsl: y = x^(2/5) solves y^5 = x^2; the quadratic start is
// within 6 %, and each Newton step squares that twice over: 5e-3, 5e-5, 5e-9.
__device__ inline float power_12_5(float x) {
  const float square = x * x;
  float y = 0.3817f + (x - 0.09f) * (1.1243f - 0.6355f * (x - 0.3f));
#pragma unroll
  for (u32 step = 0u; step < 3u; step++) {
    const float y2 = y * y;
    y = 0.2f * (4.0f * y + square / (y2 * y2));
  }
  return square * y;
}

__device__ inline float linear(u8 byte) {
  const float c = float(byte) / 255.0f;
  return c <= 0.04045f ? c / 12.92f : power_12_5((c + 0.055f) / 1.055f);
}

extern "C" __global__ void __launch_bounds__(THREADS) to_linear(
    Params params, const uchar4* __restrict__ pixels, float* __restrict__ out) {
  const size_t pixel = thread_number();
  if (pixel >= size_t(params.rows) * params.cols) { return; }
  const uchar4 colour = pixels[pixel];
  const float alpha = float(colour.w) / 255.0f;
  out[3u * pixel] = linear(colour.x) * alpha + (1.0f - alpha);
  out[3u * pixel + 1u] = linear(colour.y) * alpha + (1.0f - alpha);
  out[3u * pixel + 2u] = linear(colour.z) * alpha + (1.0f - alpha);
}
