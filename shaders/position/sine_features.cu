// Waves of every position and dimension, times a token's own number: out[i, (dim, wave, cosine or sine)] = x[i, dim] gain[dim,
// wave] cos or sin of the turn phase[dim, wave] + sum over axes of frequency[dim, wave, axis] places[i, axis]; behind the k waves
// of a dimension stands x[i, dim] constant[dim] where there is one. x [b, h, n, d], places [n, a], frequency [b, h, d, k a],
// phase and gain [b, h, d, k], constant [b, h, d], out [b, h, n, m]. A thread makes one wave, or one constant, for up to four
// tokens, which share its frequencies; neighbouring threads store to neighbouring words.
constexpr u32 TOKENS = 4u;

extern "C" __global__ void __launch_bounds__(THREADS) sine_features(
    Params params, const float* __restrict__ x, const u32* __restrict__ places, const u32* __restrict__ frequency,
    const u32* __restrict__ phase, const float* __restrict__ gain, const float* __restrict__ constant, float* __restrict__ out) {
  const u32 slots = HAS_CONSTANT ? params.k + 1u : params.k;
  const size_t per_token = size_t(params.d) * slots;
  const size_t size = per_token * divided_up(params.n, TOKENS);
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 head = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= size) { return; }
  const u32 b = head / params.h;
  const u32 h = head % params.h;
  const u32 first = u32(item / per_token) * TOKENS;
  const u32 tokens = min(TOKENS, params.n - first);
  const size_t own = item % per_token;
  const u32 dim = u32(own / slots);
  const u32 wave = u32(own % slots);
  const float* token = HAS_X ? x + (size_t(head) * params.n + first) * params.d + dim : nullptr;
  // Two words for each wave before this one, and one for each constant.
  const size_t word = size_t(dim) * (params.k + slots) + 2u * wave;
  float* to = out + (size_t(head) * params.n + first) * params.m + word;
  if (HAS_CONSTANT && wave == params.k) {
    const float added = constant[size_t(b) * params.constant_b + size_t(h) * params.constant_h + dim];
    for (u32 t = 0u; t < tokens; t++) {
      to[size_t(t) * params.m] = HAS_X ? added * token[size_t(t) * params.d] : added;
    }
    return;
  }
  const size_t at = size_t(dim) * params.k + wave;
  const u32* step = frequency + size_t(b) * params.frequency_b + size_t(h) * params.frequency_h + at * params.a;
  const u32 start = HAS_PHASE ? phase[size_t(b) * params.phase_b + size_t(h) * params.phase_h + at] : 0u;
  const float factor = gain[size_t(b) * params.gain_b + size_t(h) * params.gain_h + at];
  for (u32 t = 0u; t < tokens; t++) {
    u32 turn = start;
    for (u32 axis = 0u; axis < params.a; axis++) { turn += step[axis] * places[(size_t(first) + t) * params.a + axis]; }
    const float2 both = wave_of(turn);
    const float scale = HAS_X ? factor * token[size_t(t) * params.d] : factor;
    to[size_t(t) * params.m] = scale * both.x;
    to[size_t(t) * params.m + 1u] = scale * both.y;
  }
}
