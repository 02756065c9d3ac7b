// Linear attention under a mask of relative positions, pair by pair: out[i] = sum over j of T[i - j] <q[i], k[j]> v[j], divided
// by the sum of the weights (p = e) or with it behind (p = e + 1). q, k [b, h, n, r], v [b, h, n, e], table [h or 1, t], masks
// [b, h, n], segment [n, 2], out [b, h, n, p].
//
// A block takes ROWS query rows and COLUMNS value columns: each thread 4 rows x 4 keys of the pairs and 4 rows x 8 columns of the
// result in registers. Keys come in tiles of KEYS tokens, those of the global tokens and then those between the first and the
// last key that any row of the block sees; tiles in between that lie outside every row's support are passed over. Products are
// summed over slices of FEATURES features, so any number of features fits. Where WHOLE, values are read by fours.

// Blocks that a multiprocessor has to hold. Left to itself, the compiler spills for the sake of one more.
constexpr u32 RESIDENT = 3u;
constexpr u32 ROWS = 64u;
constexpr u32 COLUMNS = 64u;
constexpr u32 KEYS = 32u;
constexpr u32 FEATURES = 16u;
// Lines of quads of rows and of keys, with one more against bank conflicts.
constexpr u32 Q_LINE = ROWS / 4u + 1u;
constexpr u32 K_LINE = KEYS / 4u + 1u;

__device__ inline float feature_of(const float* x, u32 n, u32 r, u32 token, u32 c) {
  return token < n && c < r ? x[size_t(token) * r + c] : 0.0f;
}

__device__ inline float4 four_tokens(const float* x, u32 n, u32 r, u32 token, u32 c) {
  return make_float4(feature_of(x, n, r, token, c), feature_of(x, n, r, token + 1u, c), feature_of(x, n, r, token + 2u, c),
                     feature_of(x, n, r, token + 3u, c));
}

// Keys left out give 0, whatever they hold.
__device__ inline float4 values_of(const float* v, u32 e, u32 token, u32 column, bool kept) {
  if (!kept || column >= e) { return float4(); }
  const float* from = v + size_t(token) * e + column;
  if (WHOLE) { return *reinterpret_cast<const float4*>(from); }
  const u32 left = e - column;
  return make_float4(from[0], left > 1u ? from[1] : 0.0f, left > 2u ? from[2] : 0.0f, left > 3u ? from[3] : 0.0f);
}

__device__ inline bool overlap(OnAxis seen, int low, int high) { return low < seen.start + seen.count && high >= seen.start; }

// Whether a tile of keys may be seen by a row, by coordinates alone.
__device__ inline bool tile_is_seen(const Grid& grid, const Seen& seen, u32 n, u32 key0) {
  if (TORUS != 0u || key0 < grid.globals) { return true; }
  const Triple low = coordinates(grid, key0);
  const Triple high = coordinates(grid, min(key0 + KEYS - 1u, n - 1u));
  bool found = overlap({seen.start.x, seen.count.x}, low.x, high.x);
  if (low.x == high.x) {
    found = found && overlap({seen.start.y, seen.count.y}, low.y, high.y);
    if (low.y == high.y) { found = found && overlap({seen.start.z, seen.count.z}, low.z, high.z); }
  }
  return found;
}

__device__ inline float& part_of(float4& x, u32 i) { return i == 0u ? x.x : i == 1u ? x.y : i == 2u ? x.z : x.w; }

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) relative_attention(
    Params params, const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
    const float* __restrict__ table, const u8* __restrict__ key_mask, const u8* __restrict__ query_mask,
    const u32* __restrict__ segment, float* __restrict__ out) {
  __shared__ float4 q_tile[FEATURES * Q_LINE];
  __shared__ float4 k_tile[FEATURES * K_LINE];
  __shared__ float4 weights[KEYS * ROWS / 4u];
  __shared__ float4 values[KEYS * COLUMNS / 4u];
  __shared__ Triple row_places[ROWS];
  __shared__ Range row_segments[ROWS];
  __shared__ u32 tile_kept[KEYS];
  const u32 n = params.n;
  const u32 slices = divided_up(params.e, COLUMNS);
  const u32 row_tiles = divided_up(n, ROWS);
  const u32 head = blockIdx.x / slices / row_tiles;
  const u32 row0 = blockIdx.x / slices % row_tiles * ROWS;
  const u32 column0 = blockIdx.x % slices * COLUMNS;
  const float* head_queries = q + size_t(head) * n * params.r;
  const float* head_keys = k + size_t(head) * n * params.r;
  const float* head_values = v + size_t(head) * n * params.e;
  const float* own_table = table_of(params, table, head);
  const u8* kept = key_mask;
  if (HAS_KEY_MASK) { kept += size_t(head / params.h) * params.key_mask_b + size_t(head % params.h) * params.key_mask_h; }
  const u32 thread = threadIdx.x;
  const u32 ty = thread / 8u;
  const u32 tx = thread % 8u;
  const Grid grid = whole_grid(params);
  const u32 last_row = min(row0 + ROWS - 1u, n - 1u);
  if (thread < ROWS) {
    const u32 own = min(row0 + thread, last_row);
    row_places[thread] = own >= grid.globals ? coordinates(grid, own) : Triple{0, 0, 0};
    row_segments[thread] = segment_of(segment, n, own);
  }
  __syncthreads(); // every row's coordinates and segment are there

  // The keys between the first and the last that the block's rows see.
  Seen seen = {{0, 0, 0}, {int(n), int(n), int(n)}};
  u32 begin = 0u;
  u32 end = n;
  if (row0 >= grid.globals) {
    Triple low = coordinates(grid, row0);
    Triple high = coordinates(grid, last_row);
    if (low.x != high.x) {
      low.y = 0;
      high.y = grid.sides.y - 1;
    }
    if (low.x != high.x || low.y != high.y) {
      low.z = 0;
      high.z = int(grid.line) - 1;
    }
    Range joint = {0u, n};
    if (HAS_SEGMENT) {
      joint = {n, 0u};
      for (u32 i = 0u; i < ROWS; i++) {
        const Range own = row_segments[i];
        if (own.begin < own.end) { joint = {min(joint.begin, own.begin), max(joint.end, own.end)}; }
      }
    }
    seen = seen_by(grid, low, high, joint);
    begin = n;
    end = 0u;
    if (seen.count.x > 0 && seen.count.y > 0 && seen.count.z > 0) {
      // On a torus the keys may go past the end of a side, so that all are taken.
      const Triple to = {seen.start.x + seen.count.x - 1, seen.start.y + seen.count.y - 1, seen.start.z + seen.count.z - 1};
      begin = TORUS != 0u ? grid.globals : token_at(grid, seen.start);
      end = TORUS != 0u ? n : token_at(grid, to) + 1u;
    }
  }

  float4 sums[4][2] = {};
  float4 totals = float4(); // of the 4 rows, over the thread's own keys
  const u32 last_key = max(end, grid.globals);
  for (u32 key0 = grid.globals > 0u ? 0u : begin / KEYS * KEYS; key0 < last_key; key0 += KEYS) {
    if (key0 >= grid.globals && (key0 + KEYS <= begin || key0 >= end || !tile_is_seen(grid, seen, n, key0))) { continue; }
    if (thread < KEYS) {
      const u32 token = key0 + thread;
      tile_kept[thread] = token < n && key_is_kept(kept, segment, n, token) ? 1u : 0u;
    }
    float4 products[4] = {}; // of 4 keys with 4 rows
    for (u32 c0 = 0u; c0 < params.r; c0 += FEATURES) {
      for (u32 t = thread; t < FEATURES * ROWS / 4u; t += THREADS) {
        const u32 c = t % FEATURES;
        q_tile[c * Q_LINE + t / FEATURES] = four_tokens(head_queries, n, params.r, row0 + 4u * (t / FEATURES), c0 + c);
      }
      for (u32 t = thread; t < FEATURES * KEYS / 4u; t += THREADS) {
        const u32 c = t % FEATURES;
        k_tile[c * K_LINE + t / FEATURES] = four_tokens(head_keys, n, params.r, key0 + 4u * (t / FEATURES), c0 + c);
      }
      __syncthreads(); // both slices are complete before anyone reads them
#pragma unroll
      for (u32 c = 0u; c < FEATURES; c++) {
        const float4 rows = q_tile[c * Q_LINE + ty];
        const float4 keys = k_tile[c * K_LINE + tx];
        add_scaled(products[0], keys.x, rows);
        add_scaled(products[1], keys.y, rows);
        add_scaled(products[2], keys.z, rows);
        add_scaled(products[3], keys.w, rows);
      }
      __syncthreads(); // nobody overwrites a slice while others read it
    }

#pragma unroll
    for (u32 t = 0u; t < 4u; t++) {
      const u32 token = key0 + 4u * tx + t;
      const bool takes_part = tile_kept[4u * tx + t] != 0u;
      const Triple at = token >= grid.globals && token < n ? coordinates(grid, token) : Triple{0, 0, 0};
      float4 weight = float4();
#pragma unroll
      for (u32 i = 0u; i < 4u; i++) {
        const u32 row = row0 + 4u * ty + i;
        const bool is_global = row < grid.globals || token < grid.globals;
        const Triple place = place_of(grid, row_places[4u * ty + i], at);
        bool inside = in_support(grid, place);
        if (HAS_SEGMENT) {
          const Range own = row_segments[4u * ty + i];
          inside = inside && token >= own.begin && token < own.end;
        }
        float entry = 0.0f;
        if (takes_part && row < n) { entry = is_global ? 1.0f : inside ? entry_at(grid, own_table, place) : 0.0f; }
        // Pairs without weight give 0, whatever the row holds.
        part_of(weight, i) = entry == 0.0f ? 0.0f : entry * part_of(products[t], i);
      }
      totals = totals + weight;
      // A key's line is turned by the number of the thread, so that the eight threads of a row store to different banks.
      weights[ROWS / 4u * (4u * tx + t) + (ty ^ tx)] = weight;
    }
    for (u32 t = thread; t < KEYS * COLUMNS / 4u; t += THREADS) {
      const u32 key = t / (COLUMNS / 4u);
      values[t] = values_of(head_values, params.e, key0 + key, column0 + 4u * (t % (COLUMNS / 4u)), tile_kept[key] != 0u);
    }
    __syncthreads(); // weights and values are complete before anyone multiplies
#pragma unroll 8
    for (u32 j = 0u; j < KEYS; j++) {
      const float4 weight = weights[ROWS / 4u * j + (ty ^ (j / 4u))];
      const float4 near = values[COLUMNS / 4u * j + tx];
      const float4 far = values[COLUMNS / 4u * j + 8u + tx];
      add_scaled(sums[0][0], weight.x, near);
      add_scaled(sums[0][1], weight.x, far);
      add_scaled(sums[1][0], weight.y, near);
      add_scaled(sums[1][1], weight.y, far);
      add_scaled(sums[2][0], weight.z, near);
      add_scaled(sums[2][1], weight.z, far);
      add_scaled(sums[3][0], weight.w, near);
      add_scaled(sums[3][1], weight.w, far);
    }
    __syncthreads(); // nobody overwrites values, weights or what takes part while others still read it
  }

  // The eight threads of a row are neighbours in a warp.
  for (u32 apart = 4u; apart > 0u; apart /= 2u) {
#pragma unroll
    for (u32 i = 0u; i < 4u; i++) { part_of(totals, i) += __shfl_xor_sync(ALL_LANES, part_of(totals, i), apart); }
  }
#pragma unroll
  for (u32 i = 0u; i < 4u; i++) {
    const float total = part_of(totals, i);
    const u32 row = row0 + 4u * ty + i;
    if (row >= n) { break; }
    bool asked = true;
    if (HAS_QUERY_MASK) {
      const size_t of_head = size_t(head / params.h) * params.query_mask_b + size_t(head % params.h) * params.query_mask_h;
      asked = query_mask[of_head + row] != 0u;
    }
    float* to = out + (size_t(head) * n + row) * params.p;
    const bool divided = params.p == params.e;
    const bool zero = !asked || (divided && total == 0.0f);
    // One division for a row; powers of two keep the reciprocal of tiny and huge sums a number.
    const float scale = total < 1e-30f ? 1.152921504606847e18f : total > 1e30f ? 8.673617379884035e-19f : 1.0f;
    const float reciprocal = divided ? 1.0f / (total * scale) : 1.0f;
#pragma unroll
    for (u32 c = 0u; c < 8u; c++) {
      const u32 column = column0 + c / 4u * 32u + 4u * tx + c % 4u;
      const float sum = part_of(sums[i][c / 4u], c % 4u);
      if (column < params.e) { to[column] = zero ? 0.0f : divided ? sum * scale * reciprocal : sum; }
    }
    if (!divided && column0 == 0u && tx == 0u) { to[params.e] = asked ? total : 0.0f; }
  }
}
