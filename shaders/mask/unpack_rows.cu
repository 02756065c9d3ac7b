// The way back from sequences: out[a, d, i] = x[place / m, a, d, place % m] for place = place[i] below s m, else base[a, d, i],
// or 0 without a base. x [s, a, d, m, c], place [n], base and out [a, d, n, c]. One thread per WORDS columns.
typedef Words<WORDS == 4u>::Type Number;

extern "C" __global__ void __launch_bounds__(THREADS) unpack_rows(
    Params params, const float* __restrict__ x, const u32* __restrict__ place, const float* __restrict__ base,
    float* __restrict__ out) {
  const u32 width = params.c / WORDS;
  const size_t at = size_t(blockIdx.x) * THREADS + threadIdx.x;
  const u32 heads = params.a * params.d;
  if (at >= size_t(heads) * params.n * width) { return; }
  const size_t line = at / width;
  const u32 head = u32(line / params.n);
  const u32 found = place[line % params.n];
  Number value = Number();
  if (found < size_t(params.s) * params.m) {
    const size_t row = (size_t(found / params.m) * heads + head) * params.m + found % params.m;
    value = reinterpret_cast<const Number*>(x)[row * width + at % width];
  } else if (HAS_BASE) {
    value = reinterpret_cast<const Number*>(base)[at];
  }
  reinterpret_cast<Number*>(out)[at] = value;
}
