// A picture of numbers: 256 colours between low and high, blended linearly between neighbours. One thread per pixel.
// values [rows, cols], colours [256] packed red-lowest, out [rows, cols] display bytes.
extern "C" __global__ void __launch_bounds__(THREADS) colormap(
    Params params, const float* __restrict__ values, const u32* __restrict__ colours, uchar4* __restrict__ out) {
  const size_t pixel = thread_number();
  if (pixel >= size_t(params.rows) * params.cols) { return; }
  const float x = values[pixel];
  const u32 bits = __float_as_uint(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) {
    const u32 special = (bits & 0x007fffffu) != 0u ? params.nan : params.infinite;
    out[pixel] = make_uchar4(u8(special), u8(special >> 8u), u8(special >> 16u), u8(special >> 24u));
    return;
  }
  const float part = (fminf(fmaxf(x, params.low), params.high) - params.low) / (params.high - params.low);
  const float place = fminf(fmaxf(255.0f * part, 0.0f), 255.0f);
  const u32 below = u32(place);
  const u32 lower = colours[below];
  const u32 upper = colours[min(below + 1u, 255u)];
  const float rest = place - float(below);
  u8 bytes[4];
#pragma unroll
  for (u32 i = 0u; i < 4u; i++) {
    const float from = float(lower >> (8u * i) & 255u);
    const float to = float(upper >> (8u * i) & 255u);
    bytes[i] = u8(floorf(from + (to - from) * rest + 0.5f));
  }
  out[pixel] = make_uchar4(bytes[0], bytes[1], bytes[2], bytes[3]);
}
