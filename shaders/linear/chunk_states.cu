// What a chunk's keys and values give to the queries after it: states[chunk] = sum over its keys j of gamma^(last - j) k[j]
// [v[j], 1], and two-sided the same towards its first token. k [b, h, n, r], v [b, h, n, e], states [b, h, c, s]: r x e products,
// then r sums of keys. A block takes SIDE features x SIDE columns of one chunk and side, a thread 4 x 4 of them; keys come in
// slices of 32, weighed on the way to shared memory.
constexpr u32 KEYS = 32u;
constexpr u32 LINE = SIDE / 4u;

extern "C" __global__ void __launch_bounds__(THREADS) chunk_states(
    Params params, const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ powers,
    const u8* __restrict__ key_mask, const u32* __restrict__ reach, float* __restrict__ states) {
  __shared__ float4 k_tile[KEYS][LINE];
  __shared__ float4 v_tile[KEYS][LINE];
  const u32 col_tiles = max(divided_up(params.e, SIDE), 1u);
  const u32 row_tiles = divided_up(params.r, SIDE);
  const u32 col0 = blockIdx.x % col_tiles * SIDE;
  const u32 row0 = blockIdx.x / col_tiles % row_tiles * SIDE;
  const u32 place = blockIdx.x / col_tiles / row_tiles;
  const u32 side = place % (1u + TWO_SIDED);
  const u32 chunk = place / (1u + TWO_SIDED) % params.c;
  const u32 batch = place / (1u + TWO_SIDED) / params.c;
  const Tokens tokens = tokens_of(params, batch, powers, key_mask, reach);
  const u32 first = min(chunk * params.rows, params.n);
  const u32 end = first + min(params.rows, params.n - first);
  // Keys that the edge token sees: those of its segment.
  const u32 edge = side == 1u ? first : max(end, 1u) - 1u;
  const u32 seen = first < end ? reach_of(tokens, edge, side) : 0u;
  const float* keys = k + size_t(batch) * params.n * params.r;
  const float* values = v + size_t(batch) * params.n * params.e;
  const u32 ty = threadIdx.x / LINE;
  const u32 tx = threadIdx.x % LINE;
  float sums[4][4] = {};
  float ones[4] = {};
  for (u32 key0 = first; key0 < end; key0 += KEYS) {
    for (u32 t = threadIdx.x; t < KEYS * LINE; t += THREADS) {
      const u32 j = key0 + t / LINE;
      const u32 four = 4u * (t % LINE);
      const u32 distance = side == 1u ? j - edge : edge - j;
      const bool counts = j < end && distance < seen && key_counts(tokens, j);
      float4 x = four_of(keys + size_t(j) * params.r, row0 + four, params.r, counts);
      if (HAS_POWERS && counts) {
        const float weight = power(tokens, distance);
        x = make_float4(weight * x.x, weight * x.y, weight * x.z, weight * x.w);
      }
      k_tile[t / LINE][t % LINE] = x;
      v_tile[t / LINE][t % LINE] = four_of(values + size_t(j) * params.e, col0 + four, params.e, counts);
    }
    __syncthreads(); // both slices are complete before anyone multiplies
#pragma unroll 8
    for (u32 j = 0u; j < KEYS; j++) {
      const float4 x = k_tile[j][ty];
      const float4 y = v_tile[j][tx];
      const float xs[4] = {x.x, x.y, x.z, x.w};
      const float ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (u32 a = 0u; a < 4u; a++) {
        ones[a] += xs[a];
#pragma unroll
        for (u32 b = 0u; b < 4u; b++) { sums[a][b] += xs[a] * ys[b]; }
      }
    }
    __syncthreads(); // nobody overwrites a slice that others still read
  }
  float* state = states + (size_t(batch) * params.c + chunk) * params.s + size_t(side) * params.r * (params.e + 1u);
  const u32 col = col0 + 4u * tx;
#pragma unroll
  for (u32 a = 0u; a < 4u; a++) {
    const u32 row = row0 + 4u * ty + a;
    if (row >= params.r) { break; }
    float* line = state + size_t(row) * params.e + col;
#pragma unroll
    for (u32 b = 0u; b < 4u; b++) {
      if (col + b < params.e) { line[b] = sums[a][b]; }
    }
    if (col == 0u) { state[size_t(params.r) * params.e + row] = ones[a]; }
  }
}
