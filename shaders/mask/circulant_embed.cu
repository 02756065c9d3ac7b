// The first column of a circulant: out[g, c] = table[g, entry of the offset that is c modulo the lengths], as a complex number; 0
// where no offset is. table [g, t], out [g, L1 L2 L3, 2]. One thread per word, of which the odd ones are 0.
constexpr u32 NONE = 0xffffffffu;

// Index along one axis of the entry at place `c`: of `side` tokens, circulants of length `length`.
__device__ inline u32 entry_of(u32 c, u32 side, u32 length) {
  int offset = c >= side ? int(c) - int(length) : int(c);
  if (TORUS == 1u && length == side) { offset = int(c); }
  if (offset <= -int(side)) { return NONE; }
  if (TRANSPOSE == 1u) { offset = -offset; }
  if (TORUS == 1u) { return u32(offset < 0 ? offset + int(side) : offset); }
  return u32(offset + int(side) - 1);
}

__device__ inline u32 entries(u32 side) { return TORUS == 1u ? side : 2u * side - 1u; }

extern "C" __global__ void __launch_bounds__(THREADS) circulant_embed(
    Params params, const float* __restrict__ table, float* __restrict__ out) {
  const size_t at = size_t(blockIdx.x) * THREADS + threadIdx.x;
  if (at >= 2u * size_t(params.g) * params.f) { return; }
  const size_t head = at / 2u / params.f;
  const u32 place = u32(at / 2u % params.f);
  const u32 a = entry_of(place / (L3 * L2), N1, L1);
  const u32 b = entry_of(place / L3 % L2, N2, L2);
  const u32 c = entry_of(place % L3, N3, L3);
  float value = 0.0f;
  if (at % 2u == 0u && a != NONE && b != NONE && c != NONE) {
    value = table[head * params.t + (size_t(a) * entries(N2) + b) * entries(N3) + c];
  }
  out[at] = value;
}
