// Linear attention under a mask of relative positions, pair by pair: out[i] = sum over j of T[i - j] <q[i], k[j]> v[j], divided
// by the sum of the weights (p = e) or with it behind (p = e + 1). q, k [b, h, n, r], v [b, h, n, e], table [h or 1, t], masks
// [b, h, n], segment [n, 2], out [b, h, n, p].
//
// A block takes ROWS query rows and COLUMNS value columns: each thread 4 rows x 4 keys of the pairs and 4 rows x 8 columns of the
// result in registers. Keys come in tiles of TILE tokens, those of the global tokens and then those between the first and the
// last key that any row of the block sees; tiles in between that lie outside every row's support are passed over. Products are
// summed over slices of DEPTH features, so any number of features fits. A stage holds a slice or the values of a tile.

// Blocks that a multiprocessor has to hold. Left to itself, the compiler spills for the sake of one more.
constexpr u32 RESIDENT = 3u;
constexpr u32 ROWS = 64u;
constexpr u32 COLUMNS = VALUE_COLS;
constexpr u32 TILE = VALUE_KEYS; // keys
constexpr u32 DEPTH = 16u;

__device__ inline bool overlap(OnAxis seen, int low, int high) { return low < seen.start + seen.count && high >= seen.start; }

// Whether a tile of keys may be seen by a row, by coordinates alone.
__device__ inline bool tile_is_seen(const Grid& grid, const Seen& seen, u32 n, u32 key0) {
  if (TORUS != 0u || key0 < grid.globals) { return true; }
  const Triple low = coordinates(grid, key0);
  const Triple high = coordinates(grid, min(key0 + TILE - 1u, n - 1u));
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
  // Queries and keys of a slice, or values.
  __shared__ float4 tiles[STAGES][TILE * COLUMNS / 4u];
  static_assert(DEPTH * (ROWS + TILE) <= TILE * COLUMNS, "a slice fits a stage");
  __shared__ float4 weights[TILE * ROWS / 4u];
  __shared__ Triple row_places[ROWS];
  __shared__ Range row_segments[ROWS];
  __shared__ u32 tile_kept[TILE];
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
  // The first tile from key0 on of which any row may see a key.
  const auto seen_from = [&](u32 key0) {
    const auto passed_over = [&] {
      return key0 >= grid.globals && (key0 + TILE <= begin || key0 >= end || !tile_is_seen(grid, seen, n, key0));
    };
    while (key0 < last_key && passed_over()) { key0 += TILE; }
    return key0;
  };
  const auto fill = [&](u32 stage, u32 key0, u32 from) {
    copy_slice<ROWS, DEPTH>(tiles[stage], head_queries, row0, n, params.r, from);
    copy_slice<TILE, DEPTH>(tiles[stage] + DEPTH * ROWS / 4u, head_keys, key0, n, params.r, from);
  };
  Stages stages;
  u32 next = seen_from(grid.globals > 0u ? 0u : begin / TILE * TILE);
  if (next < last_key) { stages.begin([&](u32 stage) { fill(stage, next, 0u); }); }
  while (next < last_key) {
    const u32 key0 = next;
    next = seen_from(key0 + TILE);
    if (thread < TILE) {
      const u32 token = key0 + thread;
      tile_kept[thread] = token < n && key_is_kept(kept, segment, n, token) ? 1u : 0u;
    }
    float products[4][4] = {}; // of 4 rows with 4 keys
    u32 from = 0u;
    do {
      const auto fill_next = [&](u32 stage) {
        if (params.r - from > DEPTH) {
          fill(stage, key0, from + DEPTH);
        } else {
          const auto is_kept = [&](u32 key) { return tile_kept[key - key0] != 0u; };
          copy_values(tiles[stage], head_values, key0, n, params.e, column0, is_kept);
        }
      };
      stages.step(fill_next, [&](u32 stage) {
        const u32 depth = slice_depth<DEPTH>(params.r, from);
        add_pairs<PRODUCT, 16u, 8u, DEPTH>(products, tiles[stage], tiles[stage] + DEPTH * ROWS / 4u, depth, ty, tx);
      });
      from += DEPTH;
    } while (from < params.r);

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
        part_of(weight, i) = entry == 0.0f ? 0.0f : entry * products[i][t];
      }
      totals = totals + weight;
      // A key's line is turned by the number of the thread, so that the eight threads of a row store to different banks.
      weights[ROWS / 4u * (4u * tx + t) + (ty ^ tx)] = weight;
    }
    const auto fill_next = [&](u32 stage) {
      if (next < last_key) { fill(stage, next, 0u); }
    };
    stages.step(fill_next, [&](u32 stage) {
      const float4* const values = tiles[stage];
#pragma unroll 8
      for (u32 j = 0u; j < TILE; j++) {
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
    });
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
