// 64 query rows x 64 value columns per group for GPUs: 64 threads, each 8 rows x 4 keys of the pairs and 8 rows x 8
// columns of the result in registers. Keys come in tiles of 32 tokens, those of the global tokens and then those between
// the first and the last key that any row of the group sees; tiles in between that lie outside every row's support are
// passed over. Products are summed over slices of 16 features, so any number of features fits.
@group(0) @binding(1) var<storage, read> q: array<f32>; // [b, h, n, r]
@group(0) @binding(2) var<storage, read> k: array<f32>; // [b, h, n, r]
@group(0) @binding(3) var<storage, read> v: array<f32>; // [b, h, n, e]
@group(0) @binding(4) var<storage, read> table: array<f32>; // [h or 1, t]
@group(0) @binding(5) var<storage, read> key_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(6) var<storage, read> query_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(7) var<storage, read> segment: array<u32>; // [n, 2]
@group(0) @binding(8) var<storage, read_write> out: array<f32>; // [b, h, n, p]

// One array for what is alive at different times: first 16 features of queries (stride 17 against bank conflicts) and of
// keys (stride 9), then the weights [32 keys, 16 vec4 of rows]; behind them 16 keys' values. 12 KiB.
const K_AT: u32 = 272u;
const V_AT: u32 = 512u;
var<workgroup> tile: array<vec4f, 768>;
// Of each row of the group: its coordinates, and its segment.
var<workgroup> row_places: array<vec4i, 64>;
var<workgroup> row_segments: array<vec2u, 64>;
// Of each key of a tile: 1 if it takes part.
var<workgroup> tile_kept: array<u32, 32>;

fn load_q(start: u32, row: u32, c: u32) -> f32 {
  var x = 0.0;
  if (row < params.n && c < params.r) { x = q[start + row * params.r + c]; }
  return x;
}

fn load_k(start: u32, key: u32, c: u32) -> f32 {
  var x = 0.0;
  if (key < params.n && c < params.r) { x = k[start + key * params.r + c]; }
  return x;
}

// Keys left out give 0, whatever they hold.
fn load_v(start: u32, key: u32, col: u32, kept: bool) -> f32 {
  var x = 0.0;
  if (kept && col < params.e) { x = v[start + key * params.e + col]; }
  return x;
}

struct Key {
  token: u32,
  at: vec3i,
  kept: bool,
}

fn key_of(grid: Grid, token: u32, kept: bool) -> Key {
  var key = Key(token, vec3i(), kept);
  if (token >= params.globals && token < params.n) { key.at = coordinates(grid, token); }
  return key;
}

// The mask of a row of the group and a key.
fn masked(grid: Grid, table_from: u32, row0: u32, row_in_group: u32, key: Key) -> f32 {
  let row = row0 + row_in_group;
  let global = row < params.globals || key.token < params.globals;
  let place = place_of(grid, row_places[row_in_group].xyz, key.at);
  var inside = in_support(grid, place);
  if (HAS_SEGMENT) {
    let own = row_segments[row_in_group];
    // One comparison and no branch: with two more branches here SwiftShader's compiler takes minutes.
    inside = select(false, inside, key.token - own.x < max(own.x, own.y) - own.x);
  }
  var entry = 1.0;
  if (select(inside, false, global)) { entry = entry_at(grid, table_from, place); }
  entry = select(0.0, entry, select(inside, true, global));
  entry = select(0.0, entry, key.kept);
  return select(0.0, entry, row < params.n);
}

fn masked4(grid: Grid, table_from: u32, row0: u32, row_in_group: u32, key: Key) -> vec4f {
  return vec4f(masked(grid, table_from, row0, row_in_group, key), masked(grid, table_from, row0, row_in_group + 1u, key),
    masked(grid, table_from, row0, row_in_group + 2u, key), masked(grid, table_from, row0, row_in_group + 3u, key));
}

// Pairs without weight give 0, whatever the row holds.
fn weighted(mask: vec4f, product: vec4f) -> vec4f { return select(vec4f(), mask * product, mask != vec4f()); }

fn overlap(start: i32, count: i32, low: i32, high: i32) -> bool { return low < start + count && high >= start; }

// Whether a tile of keys may be seen by a row, by coordinates alone.
fn tile_is_seen(grid: Grid, seen: Seen, key0: u32) -> bool {
  var found = true;
  if (TORUS == 0u && key0 >= params.globals) {
    let low = coordinates(grid, key0);
    let high = coordinates(grid, min(key0 + 31u, params.n - 1u));
    found = overlap(seen.start.x, seen.count.x, low.x, high.x);
    if (low.x == high.x) {
      found = found && overlap(seen.start.y, seen.count.y, low.y, high.y);
      if (low.y == high.y) { found = found && overlap(seen.start.z, seen.count.z, low.z, high.z); }
    }
  }
  return found;
}

fn store(local_batch: u32, query_mask_from: u32, row: u32, col: u32, lo: vec4f, hi: vec4f, total: f32) {
  if (row >= params.n) { return; }
  let asked = row_is_asked(query_mask_from, row);
  let at = params.out_at + (local_batch * params.n + row) * params.p;
  store4(at, col, finished(lo, total, asked));
  store4(at, col + 4u, finished(hi, total, asked));
  if (col == 0u) { store_total(at, total, asked); }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let slices = (params.e + 63u) / 64u;
  let row_tiles = (params.n + 63u) / 64u;
  let local_batch = group / (slices * row_tiles);
  let row0 = group / slices % row_tiles * 64u;
  let col0 = group % slices * 64u;
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let q_from = params.q_at + local_batch * params.n * params.r;
  let k_from = params.k_at + local_batch * params.n * params.r;
  let v_from = params.v_at + local_batch * params.n * params.e;
  let table_from = table_of(h);
  let key_mask_from = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h;
  let query_mask_from = params.query_mask_at + b * params.query_mask_b + h * params.query_mask_h;
  let ty = thread / 8u;
  let tx = thread % 8u;
  let row_in_group = 8u * ty;
  let col = col0 + 8u * tx;
  let grid = whole_grid();
  let own_row = min(row0 + thread, params.n - 1u);
  if (own_row >= params.globals) { row_places[thread] = vec4i(coordinates(grid, own_row), 0); }
  row_segments[thread] = segment_of(own_row);

  // The keys between the first and the last that the group's rows see. What this is made from is the same for all threads.
  let last_row = min(row0 + 63u, params.n - 1u);
  var seen = Seen(vec3i(), vec3i());
  var begin = params.n;
  var end = 0u;
  if (row0 < params.globals) {
    begin = 0u;
    end = params.n;
    seen = Seen(vec3i(), vec3i(i32(params.n)));
  } else {
    var low = coordinates(grid, row0);
    var high = coordinates(grid, last_row);
    if (low.x != high.x) { low.y = 0; high.y = grid.sides.y - 1; }
    if (low.x != high.x || low.y != high.y) { low.z = 0; high.z = i32(grid.line) - 1; }
    var joint = vec2u(0u, params.n);
    if (HAS_SEGMENT) {
      joint = vec2u(params.n, 0u);
      for (var t = row0; t <= last_row; t++) {
        let own = segment_of(t);
        if (own.x < own.y) { joint = vec2u(min(joint.x, own.x), max(joint.y, own.y)); }
      }
    }
    seen = seen_by(grid, low, high, joint);
    if (seen.count.x > 0 && seen.count.y > 0 && seen.count.z > 0) {
      // On a torus the keys may go past the end of a side, so that all are taken.
      let to = seen.start + seen.count - 1;
      begin = select(token_at(grid, seen.start), params.globals, TORUS != 0u);
      end = select(token_at(grid, to) + 1u, params.n, TORUS != 0u);
    }
  }

  var o00 = vec4f(); var o01 = vec4f();
  var o10 = vec4f(); var o11 = vec4f();
  var o20 = vec4f(); var o21 = vec4f();
  var o30 = vec4f(); var o31 = vec4f();
  var o40 = vec4f(); var o41 = vec4f();
  var o50 = vec4f(); var o51 = vec4f();
  var o60 = vec4f(); var o61 = vec4f();
  var o70 = vec4f(); var o71 = vec4f();
  // Of the 8 rows, over the thread's own keys.
  var total_lo = vec4f(); var total_hi = vec4f();
  workgroupBarrier(); // every row's coordinates and segment are there

  let first_tile = min(select(begin, 0u, params.globals > 0u), begin) / 32u;
  let last_key = max(end, params.globals);
  for (var key0 = 32u * first_tile; key0 < last_key; key0 += 32u) {
    if (key0 >= params.globals && (key0 + 32u <= begin || key0 >= end || !tile_is_seen(grid, seen, key0))) { continue; }
    if (thread < 32u) {
      let token = key0 + thread;
      tile_kept[thread] = select(0u, 1u, token < params.n && key_is_kept(key_mask_from, min(token, params.n - 1u)));
    }
    var s0lo = vec4f(); var s0hi = vec4f();
    var s1lo = vec4f(); var s1hi = vec4f();
    var s2lo = vec4f(); var s2hi = vec4f();
    var s3lo = vec4f(); var s3hi = vec4f();
    for (var c0 = 0u; c0 < params.r; c0 += 16u) {
      for (var t = thread; t < 256u; t += 64u) {
        let c = t % 16u;
        let r = row0 + 4u * (t / 16u);
        tile[c * 17u + t / 16u] = vec4f(load_q(q_from, r, c0 + c), load_q(q_from, r + 1u, c0 + c),
          load_q(q_from, r + 2u, c0 + c), load_q(q_from, r + 3u, c0 + c));
      }
      for (var t = thread; t < 128u; t += 64u) {
        let c = t % 16u;
        let j = key0 + 4u * (t / 16u);
        tile[K_AT + c * 9u + t / 16u] = vec4f(load_k(k_from, j, c0 + c), load_k(k_from, j + 1u, c0 + c),
          load_k(k_from, j + 2u, c0 + c), load_k(k_from, j + 3u, c0 + c));
      }
      workgroupBarrier(); // both slices are complete before anyone reads them
      for (var c = 0u; c < 16u; c++) {
        let qlo = tile[c * 17u + 2u * ty];
        let qhi = tile[c * 17u + 2u * ty + 1u];
        let keys = tile[K_AT + c * 9u + tx];
        s0lo += qlo * keys.x; s0hi += qhi * keys.x;
        s1lo += qlo * keys.y; s1hi += qhi * keys.y;
        s2lo += qlo * keys.z; s2hi += qhi * keys.z;
        s3lo += qlo * keys.w; s3hi += qhi * keys.w;
      }
      workgroupBarrier(); // nobody overwrites a slice, or puts weights in its place, while others read it
    }

    // A key's line is turned by its thread's number, so that the eight threads of a row store to different banks. The thread's
    // masks stand where its weights will: in a loop, because SwiftShader takes minutes over eight copies of it.
    let place = 64u * tx + ((2u * ty) ^ (2u * tx));
    for (var t = 0u; t < 4u; t++) {
      let key = key_of(grid, key0 + 4u * tx + t, tile_kept[4u * tx + t] != 0u);
      for (var side = 0u; side < 2u; side++) {
        tile[place + 16u * t + side] = masked4(grid, table_from, row0, row_in_group + 4u * side, key);
      }
    }
    s0lo = weighted(tile[place], s0lo); s0hi = weighted(tile[place + 1u], s0hi);
    s1lo = weighted(tile[place + 16u], s1lo); s1hi = weighted(tile[place + 17u], s1hi);
    s2lo = weighted(tile[place + 32u], s2lo); s2hi = weighted(tile[place + 33u], s2hi);
    s3lo = weighted(tile[place + 48u], s3lo); s3hi = weighted(tile[place + 49u], s3hi);
    total_lo += (s0lo + s1lo) + (s2lo + s3lo);
    total_hi += (s0hi + s1hi) + (s2hi + s3hi);
    tile[place] = s0lo; tile[place + 1u] = s0hi;
    tile[place + 16u] = s1lo; tile[place + 17u] = s1hi;
    tile[place + 32u] = s2lo; tile[place + 33u] = s2hi;
    tile[place + 48u] = s3lo; tile[place + 49u] = s3hi;

    for (var half = 0u; half < 32u; half += 16u) {
      for (var t = thread; t < 256u; t += 64u) {
        let j = key0 + half + t / 16u;
        let c = col0 + 4u * (t % 16u);
        let kept = tile_kept[half + t / 16u] != 0u;
        tile[V_AT + t] = vec4f(load_v(v_from, j, c, kept), load_v(v_from, j, c + 1u, kept),
          load_v(v_from, j, c + 2u, kept), load_v(v_from, j, c + 3u, kept));
      }
      workgroupBarrier(); // weights and values are complete before anyone multiplies
      for (var j = 0u; j < 16u; j++) {
        let line = 16u * (half + j) + ((2u * ty) ^ (2u * ((half + j) / 4u)));
        let wlo = tile[line];
        let whi = tile[line + 1u];
        let vlo = tile[V_AT + 16u * j + 2u * tx];
        let vhi = tile[V_AT + 16u * j + 2u * tx + 1u];
        o00 += wlo.x * vlo; o01 += wlo.x * vhi;
        o10 += wlo.y * vlo; o11 += wlo.y * vhi;
        o20 += wlo.z * vlo; o21 += wlo.z * vhi;
        o30 += wlo.w * vlo; o31 += wlo.w * vhi;
        o40 += whi.x * vlo; o41 += whi.x * vhi;
        o50 += whi.y * vlo; o51 += whi.y * vhi;
        o60 += whi.z * vlo; o61 += whi.z * vhi;
        o70 += whi.w * vlo; o71 += whi.w * vhi;
      }
      workgroupBarrier(); // nobody overwrites values or weights that others still read
    }
  }

  tile[16u * tx + 2u * ty] = total_lo;
  tile[16u * tx + 2u * ty + 1u] = total_hi;
  workgroupBarrier(); // every thread of a row sees the sums of all
  total_lo = vec4f();
  total_hi = vec4f();
  for (var t = 0u; t < 8u; t++) {
    total_lo += tile[16u * t + 2u * ty];
    total_hi += tile[16u * t + 2u * ty + 1u];
  }
  store(local_batch, query_mask_from, row0 + row_in_group + 0u, col, o00, o01, total_lo.x);
  store(local_batch, query_mask_from, row0 + row_in_group + 1u, col, o10, o11, total_lo.y);
  store(local_batch, query_mask_from, row0 + row_in_group + 2u, col, o20, o21, total_lo.z);
  store(local_batch, query_mask_from, row0 + row_in_group + 3u, col, o30, o31, total_lo.w);
  store(local_batch, query_mask_from, row0 + row_in_group + 4u, col, o40, o41, total_hi.x);
  store(local_batch, query_mask_from, row0 + row_in_group + 5u, col, o50, o51, total_hi.y);
  store(local_batch, query_mask_from, row0 + row_in_group + 6u, col, o60, o61, total_hi.z);
  store(local_batch, query_mask_from, row0 + row_in_group + 7u, col, o70, o71, total_hi.w);
}
