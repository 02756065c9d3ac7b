// Whether the rounding noise of a Fourier multiply may spoil a row's denominator: flags[i] = 1 where safety 2^-24 log2_length
// table_norm sum over r of |q[i, r]| norms[r] exceeds tau times the denominator sums[i, p - 1], or where that is no finite number
// above 0. sums [b, h, n, p], q [b, h, n, r], norms [b, h, r], table_norm [h or 1], query_mask and flags [b, h, n]. One warp per
// row.
__device__ inline bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }

extern "C" __global__ void __launch_bounds__(THREADS) noise_flags(
    Params params, const float* __restrict__ sums, const float* __restrict__ q, const float* __restrict__ norms,
    const float* __restrict__ table_norm, const u8* __restrict__ query_mask, u32* __restrict__ flags) {
  const u32 blocks_per_head = divided_up(params.n, THREADS / WARP);
  const u32 head = blockIdx.x / blocks_per_head;
  const u32 row = blockIdx.x % blocks_per_head * (THREADS / WARP) + threadIdx.x / WARP;
  if (row >= params.n) { return; } // the whole warp
  const size_t line = size_t(head) * params.n + row;
  const float* own = q + line * params.r;
  const float* of_head = norms + size_t(head) * params.r;
  float size = 0.0f;
  // Features 2l and 2l + 1 are one complex number of the transform: the noise of the larger is in both.
  for (u32 c = threadIdx.x % WARP; c < params.r; c += WARP) {
    const u32 partner = (c ^ 1u) < params.r ? c ^ 1u : c;
    size += fabsf(own[c]) * fmaxf(of_head[c], of_head[partner]);
  }
  size = warp_sum(size);
  if (threadIdx.x % WARP != 0u) { return; }
  // Unit roundoff 2^-24.
  const float noise = params.safety * 5.9604644775390625e-8f * params.log2_length
    * table_norm[head % params.h % params.tables] * size;
  const float total = sums[line * params.p + params.p - 1u];
  bool flagged = !is_finite(total) || !is_finite(noise) || !(total > 0.0f) || noise > params.tau * total;
  if (params.spare_zeros != 0u) { flagged = flagged && !(size == 0.0f && total == 0.0f); }
  if (HAS_QUERY_MASK) {
    const size_t from = size_t(head / params.h) * params.query_mask_b + size_t(head % params.h) * params.query_mask_h;
    flagged = flagged && query_mask[from + row] != 0u;
  }
  flags[line] = flagged ? 1u : 0u;
}
