// Finished rows of masked attention for a list of queries: out[l] = sum over j of T[i - j] <q[i], k[j]> v[j], divided by the sum
// of the weights, for i = list[1 + l]; zeros where that is 0 and past the list's end. q, k [b, h, n, r], v [b, h, n, e], table [h
// or 1, t], key_mask [b, h, n], segment [n, 2], list [1 + c]: how many rows, then batch n + row of each; out [c, e]. One row and
// COLUMNS value columns per block: its threads weigh a key each, and then its warps take turns at the keys, a column to a lane.
// `dispatch` [3] counts the blocks that the list wants.

// Blocks that a multiprocessor has to hold. Left to itself, the compiler spills for the sake of one more.
constexpr u32 RESIDENT = 8u;
constexpr u32 COLUMNS = WARP;
constexpr u32 WARPS = THREADS / WARP;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) relative_rows(
    Params params, const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
    const float* __restrict__ table, const u8* __restrict__ key_mask, const u32* __restrict__ segment,
    const u32* __restrict__ list, const u32* __restrict__ dispatch, float* __restrict__ out) {
  __shared__ u32 keys[THREADS];
  __shared__ float weights[THREADS];
  __shared__ float sums[WARPS][COLUMNS];
  if (HAS_DISPATCH && blockIdx.x >= size_t(dispatch[0]) * dispatch[1] * dispatch[2]) { return; }
  const u32 slices = divided_up(params.e, COLUMNS);
  const u32 entry = blockIdx.x / slices;
  // The count may be folded into more blocks than there are places.
  if (entry >= params.c) { return; }
  const u32 lane = threadIdx.x % WARP;
  const u32 warp = threadIdx.x / WARP;
  const u32 column = blockIdx.x % slices * COLUMNS + lane;
  float* to = out + size_t(entry) * params.e + column;
  if (entry >= list[0]) {
    if (warp == 0u && column < params.e) { *to = 0.0f; }
    return;
  }
  const u32 n = params.n;
  const u32 listed = list[1u + entry];
  const u32 head = listed / n;
  const u32 row = listed % n;
  const float* query = q + (size_t(head) * n + row) * params.r;
  const float* head_keys = k + size_t(head) * n * params.r;
  const float* head_values = v + size_t(head) * n * params.e;
  const float* own_table = table_of(params, table, head);
  const u8* kept = key_mask;
  if (HAS_KEY_MASK) { kept += size_t(head / params.h) * params.key_mask_b + size_t(head % params.h) * params.key_mask_h; }
  const Grid grid = whole_grid(params);
  const Visits visits = visits_of(grid, segment, n, row);
  float sum = 0.0f;
  float total = 0.0f;
  for (u32 from = 0u; from < visits.total; from += THREADS) {
    const u32 step = from + threadIdx.x;
    u32 key = 0u;
    float weight = 0.0f;
    if (step < visits.total) {
      const Visit seen = visit_of(grid, visits, own_table, step);
      key = seen.key;
      if (seen.weight != 0.0f && key_is_kept(kept, segment, n, key)) {
        const float* of_key = head_keys + size_t(key) * params.r;
        float parts[4] = {};
        u32 c = 0u;
        for (; c + 4u <= params.r; c += 4u) {
#pragma unroll
          for (u32 i = 0u; i < 4u; i++) { parts[i] += query[c + i] * of_key[c + i]; }
        }
        for (; c < params.r; c++) { parts[0] += query[c] * of_key[c]; }
        weight = seen.weight * ((parts[0] + parts[1]) + (parts[2] + parts[3]));
      } else {
        key = n; // what it holds must not be read
      }
    } else {
      key = n;
    }
    total += weight;
    keys[threadIdx.x] = key;
    weights[threadIdx.x] = weight;
    __syncthreads(); // all weights of this round are there
    if (column < params.e) {
      for (u32 i = warp; i < THREADS; i += WARPS) {
        if (keys[i] < n) { sum += weights[i] * head_values[size_t(keys[i]) * params.e + column]; }
      }
    }
    __syncthreads(); // and have been used
  }
  total = block_sum<THREADS>(total);
  sums[warp][lane] = sum;
  __syncthreads(); // every warp's sums are there
  if (warp == 0u && column < params.e) {
    float all = 0.0f;
    for (u32 other = 0u; other < WARPS; other++) { all += sums[other][lane]; }
    *to = total == 0.0f ? 0.0f : all / total;
  }
}
