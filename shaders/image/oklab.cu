// out = M2 cbrt(M1 rgb) per pixel: linear light to the perceptual space OKLab. One thread per pixel. rgb, out [rows, cols, 3].
extern "C" __global__ void __launch_bounds__(THREADS) oklab(
    Params params, const float* __restrict__ rgb, float* __restrict__ out) {
  const size_t pixel = thread_number();
  if (pixel >= size_t(params.rows) * params.cols) { return; }
  const float r = rgb[3u * pixel];
  const float g = rgb[3u * pixel + 1u];
  const float b = rgb[3u * pixel + 2u];
  const float l = cbrtf(0.4122214708f * r + 0.5363325363f * g + 0.0514459929f * b);
  const float m = cbrtf(0.2119034982f * r + 0.6806995451f * g + 0.1073969566f * b);
  const float s = cbrtf(0.0883024619f * r + 0.2817188376f * g + 0.6299787005f * b);
  out[3u * pixel] = 0.2104542553f * l + 0.7936177850f * m - 0.0040720468f * s;
  out[3u * pixel + 1u] = 1.9779984951f * l - 2.4285922050f * m + 0.4505937099f * s;
  out[3u * pixel + 2u] = 0.0259040371f * l + 0.7827717662f * m - 0.8086757660f * s;
}
