// 64 query rows of one chunk and 64 value columns (32 where values are narrow), for GPUs: 64 threads, each 8 rows and 8 or 4 columns
// in registers. What a row adds up comes in blocks of 32 items with a weight for each row: first the chunk's keys, whose
// weights are products of queries and keys, then the features of the state, whose weights are the queries themselves.
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> k: array<f32>;
@group(0) @binding(3) var<storage, read> v: array<f32>;
@group(0) @binding(4) var<storage, read> powers: array<f32>;
@group(0) @binding(5) var<storage, read> key_mask: array<u32>;
@group(0) @binding(6) var<storage, read> reach: array<u32>;
@group(0) @binding(7) var<storage, read> states: array<f32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

// QUADS texels of four columns. Weights of 32 items for 64 rows, in whose place slices of queries and keys are multiplied before; then 16 items' values.
const K_AT: u32 = 272u;
const V_AT: u32 = 512u;
var<workgroup> tile: array<vec4f, 768>;
// What the ones column has for an item.
var<workgroup> ones: array<f32, 32>;
// What each row sees of its segment, before and after it.
var<workgroup> seen: array<vec2u, 64>;

fn load_q(start: u32, row: u32, c: u32) -> f32 {
  if (row >= params.n || c >= params.r) { return 0.0; }
  return q[start + row * params.r + c];
}

fn load_k(start: u32, j: u32, end: u32, c: u32) -> f32 {
  if (j >= end || c >= params.r) { return 0.0; }
  return k[start + j * params.r + c];
}

fn load_v(at: u32, col: u32, there: bool) -> f32 {
  if (!there || col >= params.e) { return 0.0; }
  return v[at + col];
}

fn load_s(at: u32, col: u32, there: bool) -> f32 {
  if (!there || col >= params.e) { return 0.0; }
  return states[at + col];
}

// The weight of a key for a row from their product; selected, because the product with a key that is not seen may be anything.
fn weight(product: f32, row: u32, row0: u32, key: u32, powers_from: u32) -> f32 {
  let later = key > row;
  if (later && TWO_SIDED == 0u) { return 0.0; }
  let distance = select(row - key, key - row, later);
  if (HAS_REACH) {
    let near = seen[row - row0];
    if (distance >= select(near.x, near.y, later)) { return 0.0; }
  }
  return product * power(powers_from, distance);
}

fn weights(products: vec4f, row: u32, row0: u32, key: u32, there: bool, powers_from: u32) -> vec4f {
  if (!there) { return vec4f(); }
  return vec4f(weight(products.x, row, row0, key, powers_from), weight(products.y, row + 1u, row0, key, powers_from),
    weight(products.z, row + 2u, row0, key, powers_from), weight(products.w, row + 3u, row0, key, powers_from));
}

// The decay between a row and the state before the chunk (side 0) or after it; 0 where it is another segment's.
fn decay_of_state(row: u32, row0: u32, first: u32, end: u32, side: u32, powers_from: u32) -> f32 {
  if (row >= end) { return 0.0; }
  let distance = select(row - first + 1u, end - row, side == 1u);
  if (HAS_REACH) {
    let near = seen[row - row0];
    if (distance >= select(near.x, near.y, side == 1u)) { return 0.0; }
  }
  return power(powers_from, distance);
}

fn store(local_batch: u32, row: u32, col: u32, lo: vec4f, hi: vec4f, total: f32) {
  if (row >= params.n) { return; }
  let at = params.out_at + (local_batch * params.n + row) * params.p;
  for (var c = 0u; c < select(4u, 8u, WIDE); c++) {
    if (col + c < params.e) {
      var value = select(hi[c & 3u], lo[c & 3u], c < 4u);
      if (DIVIDE == 1u) {
        // 0 where there is no key.
        if (total == 0.0) { value = 0.0; } else { value = value / total; }
      }
      out[at + col + c] = value;
    }
  }
  if (DIVIDE == 0u && col == 0u) { out[at + params.e] = total; }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let columns = 4u * QUADS;
  let slices = (params.e + columns - 1u) / columns;
  let row_groups = (params.n + 63u) / 64u;
  let local_batch = group / (slices * row_groups);
  let col0 = group % slices * columns;
  let row0 = group / slices % row_groups * 64u;
  let batch = params.batch_from + local_batch;
  let mask_from = key_mask_start(batch);
  let reach_from = reach_start(batch);
  let powers_from = powers_start(batch);
  let chunk = row0 / params.rows;
  let first = chunk * params.rows;
  let end = min(first + params.rows, params.n);
  let q_from = params.q_at + local_batch * params.n * params.r;
  let k_from = params.k_at + local_batch * params.n * params.r;
  let v_from = params.v_at + local_batch * params.n * params.e;
  let state_from = params.states_at + (local_batch * params.c + chunk) * params.s;
  let ty = thread / 8u;
  let tx = thread % 8u;
  let row = row0 + 8u * ty;
  if (HAS_REACH) {
    seen[thread] = vec2u();
    if (row0 + thread < end) { seen[thread] = reach_of(reach_from, row0 + thread); }
    workgroupBarrier(); // every thread sees what all rows see
  }

  var o00 = vec4f(); var o01 = vec4f();
  var o10 = vec4f(); var o11 = vec4f();
  var o20 = vec4f(); var o21 = vec4f();
  var o30 = vec4f(); var o31 = vec4f();
  var o40 = vec4f(); var o41 = vec4f();
  var o50 = vec4f(); var o51 = vec4f();
  var o60 = vec4f(); var o61 = vec4f();
  var o70 = vec4f(); var o71 = vec4f();
  var total_lo = vec4f(); var total_hi = vec4f();

  let key_end = select(min(row0 + 64u, end), end, TWO_SIDED == 1u);
  let key_blocks = (key_end - first + 31u) / 32u;
  let feature_blocks = (params.r + 31u) / 32u;
  let blocks = key_blocks + (1u + TWO_SIDED) * feature_blocks;
  for (var block = 0u; block < blocks; block++) {
    let near = block < key_blocks;
    let side = (max(block, key_blocks) - key_blocks) / feature_blocks;
    let item0 = select((max(block, key_blocks) - key_blocks) % feature_blocks * 32u, first + block * 32u, near);
    let state = state_from + side * params.r * (params.e + 1u);
    if (near) {
      var s0lo = vec4f(); var s0hi = vec4f();
      var s1lo = vec4f(); var s1hi = vec4f();
      var s2lo = vec4f(); var s2hi = vec4f();
      var s3lo = vec4f(); var s3hi = vec4f();
      for (var c0 = 0u; c0 < params.r; c0 += 16u) {
        for (var t = thread; t < 256u; t += 64u) {
          let c = c0 + t % 16u;
          let at = row0 + 4u * (t / 16u);
          tile[t % 16u * 17u + t / 16u] = vec4f(load_q(q_from, at, c), load_q(q_from, at + 1u, c), load_q(q_from, at + 2u, c), load_q(q_from, at + 3u, c));
        }
        for (var t = thread; t < 128u; t += 64u) {
          let c = c0 + t % 16u;
          let j = item0 + 4u * (t / 16u);
          tile[K_AT + t % 16u * 9u + t / 16u] = vec4f(load_k(k_from, j, end, c), load_k(k_from, j + 1u, end, c), load_k(k_from, j + 2u, end, c), load_k(k_from, j + 3u, end, c));
        }
        workgroupBarrier(); // both slices are complete before anyone multiplies
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
      let j = item0 + 4u * tx;
      let in0 = j < key_end && key_counts(mask_from, reach_from, j);
      let in1 = j + 1u < key_end && key_counts(mask_from, reach_from, j + 1u);
      let in2 = j + 2u < key_end && key_counts(mask_from, reach_from, j + 2u);
      let in3 = j + 3u < key_end && key_counts(mask_from, reach_from, j + 3u);
      // A key's line is turned by its thread's number, so that the eight threads of a row store to different banks.
      let place = 64u * tx + ((2u * ty) ^ (2u * tx));
      tile[place] = weights(s0lo, row, row0, j, in0, powers_from);
      tile[place + 1u] = weights(s0hi, row + 4u, row0, j, in0, powers_from);
      tile[place + 16u] = weights(s1lo, row, row0, j + 1u, in1, powers_from);
      tile[place + 17u] = weights(s1hi, row + 4u, row0, j + 1u, in1, powers_from);
      tile[place + 32u] = weights(s2lo, row, row0, j + 2u, in2, powers_from);
      tile[place + 33u] = weights(s2hi, row + 4u, row0, j + 2u, in2, powers_from);
      tile[place + 48u] = weights(s3lo, row, row0, j + 3u, in3, powers_from);
      tile[place + 49u] = weights(s3hi, row + 4u, row0, j + 3u, in3, powers_from);
    } else {
      for (var t = thread; t < 512u; t += 64u) {
        let l = t % 32u;
        let quad = t / 32u;
        let at = row0 + 4u * quad;
        let c = item0 + l;
        let far = vec4f(decay_of_state(at, row0, first, end, side, powers_from), decay_of_state(at + 1u, row0, first, end, side, powers_from),
          decay_of_state(at + 2u, row0, first, end, side, powers_from), decay_of_state(at + 3u, row0, first, end, side, powers_from));
        let x = vec4f(load_q(q_from, at, c), load_q(q_from, at + 1u, c), load_q(q_from, at + 2u, c), load_q(q_from, at + 3u, c));
        // Selected: a row of no segment may hold anything.
        tile[16u * l + (quad ^ (2u * (l / 4u)))] = select(vec4f(), far * x, far != vec4f());
      }
    }
    if (thread < 32u) {
      var one = 1.0;
      if (!near) {
        one = 0.0;
        if (item0 + thread < params.r) { one = states[state + params.r * params.e + item0 + thread]; }
      }
      ones[thread] = one;
    }

    for (var half = 0u; half < 32u; half += 16u) {
      for (var t = thread; t < 16u * QUADS; t += 64u) {
        let item = item0 + half + t / QUADS;
        let c = col0 + 4u * (t % QUADS);
        var x = vec4f();
        if (near) {
          let there = item < key_end && key_counts(mask_from, reach_from, item);
          let at = v_from + item * params.e;
          x = vec4f(load_v(at, c, there), load_v(at, c + 1u, there), load_v(at, c + 2u, there), load_v(at, c + 3u, there));
        } else {
          let at = state + item * params.e;
          let there = item < params.r;
          x = vec4f(load_s(at, c, there), load_s(at, c + 1u, there), load_s(at, c + 2u, there), load_s(at, c + 3u, there));
        }
        tile[V_AT + t] = x;
      }
      workgroupBarrier(); // weights and values are complete before anyone multiplies
      for (var j = 0u; j < 16u; j++) {
        let line = 16u * (half + j) + ((2u * ty) ^ (2u * ((half + j) / 4u)));
        let wlo = tile[line];
        let whi = tile[line + 1u];
        let one = ones[half + j];
        total_lo += one * wlo;
        total_hi += one * whi;
        let vlo = tile[V_AT + QUADS * j + QUADS / 8u * tx];
        o00 += wlo.x * vlo; o10 += wlo.y * vlo; o20 += wlo.z * vlo; o30 += wlo.w * vlo;
        o40 += whi.x * vlo; o50 += whi.y * vlo; o60 += whi.z * vlo; o70 += whi.w * vlo;
        if (WIDE) {
          let vhi = tile[V_AT + QUADS * j + 2u * tx + 1u];
          o01 += wlo.x * vhi; o11 += wlo.y * vhi; o21 += wlo.z * vhi; o31 += wlo.w * vhi;
          o41 += whi.x * vhi; o51 += whi.y * vhi; o61 += whi.z * vhi; o71 += whi.w * vhi;
        }
      }
      workgroupBarrier(); // nobody overwrites values or weights that others still read
    }
  }

  let col = col0 + QUADS / 2u * tx;
  store(local_batch, row, col, o00, o01, total_lo.x);
  store(local_batch, row + 1u, col, o10, o11, total_lo.y);
  store(local_batch, row + 2u, col, o20, o21, total_lo.z);
  store(local_batch, row + 3u, col, o30, o31, total_lo.w);
  store(local_batch, row + 4u, col, o40, o41, total_hi.x);
  store(local_batch, row + 5u, col, o50, o51, total_hi.y);
  store(local_batch, row + 6u, col, o60, o61, total_hi.z);
  store(local_batch, row + 7u, col, o70, o71, total_hi.w);
}
