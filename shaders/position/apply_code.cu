// Position codes put on tokens: out[i, r] = sum over d of x[i, d] (code[d n + i, r] + constant[d, r]). x [b, h, n, d], code [b,
// h, d n, r], constant [b, h, d, r], out [b, h, n, r]. A thread makes WORDS lanes of one token.
typedef Words<WORDS == 4u>::Type Value;

extern "C" __global__ void __launch_bounds__(THREADS) apply_code(
    Params params, const float* __restrict__ x, const float* __restrict__ code, const float* __restrict__ constant,
    float* __restrict__ out) {
  const u32 lanes = params.r / WORDS;
  const size_t size = size_t(params.n) * lanes;
  const u32 blocks_per_head = u32((size + THREADS - 1u) / THREADS);
  const u32 head = blockIdx.x / blocks_per_head;
  const size_t item = size_t(blockIdx.x % blocks_per_head) * THREADS + threadIdx.x;
  if (item >= size) { return; }
  const u32 b = head / params.h;
  const u32 h = head % params.h;
  const float* token = x + (size_t(head) * params.n + item / lanes) * params.d;
  const Value* own_code = reinterpret_cast<const Value*>(code + size_t(b) * params.code_b + size_t(h) * params.code_h) + item;
  Value sum = Value();
  if (HAS_CONSTANT) {
    const float* of_head = constant + size_t(b) * params.constant_b + size_t(h) * params.constant_h;
    const Value* own_constant = reinterpret_cast<const Value*>(of_head) + item % lanes;
    for (u32 d = 0u; d < params.d; d++) { sum = sum + token[d] * (own_code[d * size] + own_constant[size_t(d) * lanes]); }
  } else {
    for (u32 d = 0u; d < params.d; d++) { sum = sum + token[d] * own_code[d * size]; }
  }
  reinterpret_cast<Value*>(out)[head * size + item] = sum;
}
