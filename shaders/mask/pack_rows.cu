// Rows gathered into sequences: out[s, a, d, m] = x[a, d, index[s, m]], 0 where that is no row or one that `keep` leaves out,
// whatever it holds. x [a, d, n, c], index [s, m], keep [a or 1, d or 1, n], out [s, a, d, m, c]. One thread per WORDS columns.
typedef Words<WORDS == 4u>::Type Number;

extern "C" __global__ void __launch_bounds__(THREADS) pack_rows(
    Params params, const float* __restrict__ x, const u32* __restrict__ index, const u8* __restrict__ keep,
    float* __restrict__ out) {
  const u32 width = params.c / WORDS;
  const size_t at = size_t(blockIdx.x) * THREADS + threadIdx.x;
  const u32 heads = params.a * params.d;
  if (at >= size_t(params.s) * heads * params.m * width) { return; }
  const size_t place = at / width;
  const size_t head = place / params.m;
  const u32 sequence = u32(head / heads);
  const u32 source = u32(head % heads);
  const u32 row = index[size_t(sequence) * params.m + place % params.m];
  bool kept = row < params.n;
  if (HAS_KEEP && kept) {
    const u32 line = min(source / params.d, params.ka - 1u) * params.kd + min(source % params.d, params.kd - 1u);
    kept = keep[size_t(line) * params.n + row] != 0u;
  }
  Number value = Number();
  if (kept) { value = reinterpret_cast<const Number*>(x)[(size_t(source) * params.n + row) * width + at % width]; }
  reinterpret_cast<Number*>(out)[at] = value;
}
