// 64 query rows x 64 value columns per group for GPUs: 64 threads, each 8 rows x 4 keys of the pairs and 8 rows x 8
// columns of the result in registers. Keys come 32 at a time; their products or distances are summed over slices of
// 16 coordinates, so any head dimension fits. Per key and slice a thread reads 3 words of workgroup memory for 8
// pairs; per key of the second product 16 words for 64 multiply-adds.
@group(0) @binding(1) var<storage, read> q: array<f32>; // [b, h, n, d]
@group(0) @binding(2) var<storage, read> k: array<f32>; // [b, h, m, d]
@group(0) @binding(3) var<storage, read> v: array<f32>; // [b, h, m, e]
@group(0) @binding(4) var<storage, read> lambda: array<f32>; // [h] or [1]
@group(0) @binding(5) var<storage, read> key_mask: array<u32>; // bytes [b, h, mm]
@group(0) @binding(6) var<storage, read> mask: array<u32>; // bytes [b, h, n, mm]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [b, h, n, p]

// One array for what is alive at different times: first 16 coordinates of queries (stride 17 against bank conflicts)
// and of keys (stride 9), then the weights [32 keys, 16 vec4 of rows]; behind them 16 keys' values; last the exchange
// of row maxima and sums between the 8 threads of a row. 14 KiB.
const K_AT: u32 = 272u;
const V_AT: u32 = 512u;
const X_AT: u32 = 768u;
var<workgroup> tile: array<vec4f, 896>;

fn load_q(start: u32, row: u32, c: u32) -> f32 {
  if (row >= params.n || c >= params.d) { return 0.0; }
  return q[start + row * params.d + c];
}

fn load_k(start: u32, key: u32, c: u32) -> f32 {
  if (key >= params.m || c >= params.d) { return 0.0; }
  return k[start + key * params.d + c];
}

// Keys left out give 0, whatever they hold.
fn load_v(start: u32, key: u32, col: u32, kept: bool) -> f32 {
  if (!kept || col >= params.e) { return 0.0; }
  return v[start + key * params.e + col];
}

fn kept4(mask_from: u32, row: u32, key: u32, kept: bool) -> vec4<bool> {
  if (!HAS_MASK || !kept) { return vec4<bool>(kept); }
  let rows = min(vec4u(row) + vec4u(0u, 1u, 2u, 3u), vec4u(params.n - 1u));
  return vec4<bool>(pair_is_kept(mask_from, rows.x, key), pair_is_kept(mask_from, rows.y, key),
    pair_is_kept(mask_from, rows.z, key), pair_is_kept(mask_from, rows.w, key));
}

fn store(local_batch: u32, row: u32, col: u32, lo: vec4f, hi: vec4f, shift: f32, total: f32) {
  if (row >= params.n) { return; }
  let at = params.out_at + (local_batch * params.n + row) * params.p;
  store4(at, col, finished(lo, shift, total));
  store4(at, col + 4u, finished(hi, shift, total));
  if (col == 0u) { store_state(at, shift, total); }
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
  let q_from = params.q_at + local_batch * params.n * params.d;
  let k_from = params.k_at + local_batch * params.m * params.d;
  let v_from = params.v_at + local_batch * params.m * params.e;
  let key_mask_from = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h + params.key_from;
  let mask_from = params.mask_at + b * params.mask_b + h * params.mask_h + params.key_from;
  var bandwidth = 1.0;
  if (METRIC != 0u) { bandwidth = lambda[params.lambda_at + h % params.bandwidths]; }
  let ty = thread / 8u;
  let tx = thread % 8u;
  let row = row0 + 8u * ty;
  let col = col0 + 8u * tx;

  var o00 = vec4f(); var o01 = vec4f();
  var o10 = vec4f(); var o11 = vec4f();
  var o20 = vec4f(); var o21 = vec4f();
  var o30 = vec4f(); var o31 = vec4f();
  var o40 = vec4f(); var o41 = vec4f();
  var o50 = vec4f(); var o51 = vec4f();
  var o60 = vec4f(); var o61 = vec4f();
  var o70 = vec4f(); var o71 = vec4f();
  // Of the 8 rows: shifts agree between the 8 threads of a row, sums cover the thread's own keys.
  var shift_lo = vec4f(NO_KEY); var shift_hi = vec4f(NO_KEY);
  var total_lo = vec4f(); var total_hi = vec4f();

  for (var key0 = 0u; key0 < params.m; key0 += 32u) {
    var s0lo = vec4f(); var s0hi = vec4f();
    var s1lo = vec4f(); var s1hi = vec4f();
    var s2lo = vec4f(); var s2hi = vec4f();
    var s3lo = vec4f(); var s3hi = vec4f();
    for (var c0 = 0u; c0 < params.d; c0 += 16u) {
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
        s0lo += pair(qlo, keys.xxxx); s0hi += pair(qhi, keys.xxxx);
        s1lo += pair(qlo, keys.yyyy); s1hi += pair(qhi, keys.yyyy);
        s2lo += pair(qlo, keys.zzzz); s2hi += pair(qhi, keys.zzzz);
        s3lo += pair(qlo, keys.wwww); s3hi += pair(qhi, keys.wwww);
      }
      workgroupBarrier(); // nobody overwrites a slice, or puts weights in its place, while others read it
    }

    let key = key0 + 4u * tx;
    let end = params.m;
    let in0 = key < end && key_is_kept(key_mask_from, min(key, end - 1u));
    let in1 = key + 1u < end && key_is_kept(key_mask_from, min(key + 1u, end - 1u));
    let in2 = key + 2u < end && key_is_kept(key_mask_from, min(key + 2u, end - 1u));
    let in3 = key + 3u < end && key_is_kept(key_mask_from, min(key + 3u, end - 1u));
    let k0lo = kept4(mask_from, row, key, in0); let k0hi = kept4(mask_from, row + 4u, key, in0);
    let k1lo = kept4(mask_from, row, key + 1u, in1); let k1hi = kept4(mask_from, row + 4u, key + 1u, in1);
    let k2lo = kept4(mask_from, row, key + 2u, in2); let k2hi = kept4(mask_from, row + 4u, key + 2u, in2);
    let k3lo = kept4(mask_from, row, key + 3u, in3); let k3hi = kept4(mask_from, row + 4u, key + 3u, in3);
    s0lo = select(vec4f(NO_KEY), exponent(s0lo, bandwidth), k0lo); s0hi = select(vec4f(NO_KEY), exponent(s0hi, bandwidth), k0hi);
    s1lo = select(vec4f(NO_KEY), exponent(s1lo, bandwidth), k1lo); s1hi = select(vec4f(NO_KEY), exponent(s1hi, bandwidth), k1hi);
    s2lo = select(vec4f(NO_KEY), exponent(s2lo, bandwidth), k2lo); s2hi = select(vec4f(NO_KEY), exponent(s2hi, bandwidth), k2hi);
    s3lo = select(vec4f(NO_KEY), exponent(s3lo, bandwidth), k3lo); s3hi = select(vec4f(NO_KEY), exponent(s3hi, bandwidth), k3hi);
    tile[X_AT + 16u * tx + 2u * ty] = max(max(s0lo, s1lo), max(s2lo, s3lo));
    tile[X_AT + 16u * tx + 2u * ty + 1u] = max(max(s0hi, s1hi), max(s2hi, s3hi));
    workgroupBarrier(); // every thread of a row sees the maxima of all
    var top_lo = shift_lo;
    var top_hi = shift_hi;
    for (var t = 0u; t < 8u; t++) {
      top_lo = max(top_lo, tile[X_AT + 16u * t + 2u * ty]);
      top_hi = max(top_hi, tile[X_AT + 16u * t + 2u * ty + 1u]);
    }
    let keep_lo = exp4(shift_lo - top_lo);
    let keep_hi = exp4(shift_hi - top_hi);
    shift_lo = top_lo;
    shift_hi = top_hi;
    s0lo = select(vec4f(), exp4(s0lo - top_lo), k0lo); s0hi = select(vec4f(), exp4(s0hi - top_hi), k0hi);
    s1lo = select(vec4f(), exp4(s1lo - top_lo), k1lo); s1hi = select(vec4f(), exp4(s1hi - top_hi), k1hi);
    s2lo = select(vec4f(), exp4(s2lo - top_lo), k2lo); s2hi = select(vec4f(), exp4(s2hi - top_hi), k2hi);
    s3lo = select(vec4f(), exp4(s3lo - top_lo), k3lo); s3hi = select(vec4f(), exp4(s3hi - top_hi), k3hi);
    total_lo = total_lo * keep_lo + ((s0lo + s1lo) + (s2lo + s3lo));
    total_hi = total_hi * keep_hi + ((s0hi + s1hi) + (s2hi + s3hi));
    // A key's line is turned by its thread's number, so that the eight threads of a row store to different banks.
    let place = 64u * tx + ((2u * ty) ^ (2u * tx));
    tile[place] = s0lo; tile[place + 1u] = s0hi;
    tile[place + 16u] = s1lo; tile[place + 17u] = s1hi;
    tile[place + 32u] = s2lo; tile[place + 33u] = s2hi;
    tile[place + 48u] = s3lo; tile[place + 49u] = s3hi;
    o00 *= keep_lo.x; o01 *= keep_lo.x; o10 *= keep_lo.y; o11 *= keep_lo.y;
    o20 *= keep_lo.z; o21 *= keep_lo.z; o30 *= keep_lo.w; o31 *= keep_lo.w;
    o40 *= keep_hi.x; o41 *= keep_hi.x; o50 *= keep_hi.y; o51 *= keep_hi.y;
    o60 *= keep_hi.z; o61 *= keep_hi.z; o70 *= keep_hi.w; o71 *= keep_hi.w;

    for (var half = 0u; half < 32u; half += 16u) {
      for (var t = thread; t < 256u; t += 64u) {
        let j = key0 + half + t / 16u;
        let c = col0 + 4u * (t % 16u);
        let kept = j < end && key_is_kept(key_mask_from, min(j, end - 1u));
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
        o00 += weighed(wlo.x, vlo); o01 += weighed(wlo.x, vhi);
        o10 += weighed(wlo.y, vlo); o11 += weighed(wlo.y, vhi);
        o20 += weighed(wlo.z, vlo); o21 += weighed(wlo.z, vhi);
        o30 += weighed(wlo.w, vlo); o31 += weighed(wlo.w, vhi);
        o40 += weighed(whi.x, vlo); o41 += weighed(whi.x, vhi);
        o50 += weighed(whi.y, vlo); o51 += weighed(whi.y, vhi);
        o60 += weighed(whi.z, vlo); o61 += weighed(whi.z, vhi);
        o70 += weighed(whi.w, vlo); o71 += weighed(whi.w, vhi);
      }
      workgroupBarrier(); // nobody overwrites values or weights that others still read
    }
  }

  tile[X_AT + 16u * tx + 2u * ty] = total_lo;
  tile[X_AT + 16u * tx + 2u * ty + 1u] = total_hi;
  workgroupBarrier(); // every thread of a row sees the sums of all
  total_lo = vec4f();
  total_hi = vec4f();
  for (var t = 0u; t < 8u; t++) {
    total_lo += tile[X_AT + 16u * t + 2u * ty];
    total_hi += tile[X_AT + 16u * t + 2u * ty + 1u];
  }
  store(local_batch, row, col, o00, o01, shift_lo.x, total_lo.x);
  store(local_batch, row + 1u, col, o10, o11, shift_lo.y, total_lo.y);
  store(local_batch, row + 2u, col, o20, o21, shift_lo.z, total_lo.z);
  store(local_batch, row + 3u, col, o30, o31, shift_lo.w, total_lo.w);
  store(local_batch, row + 4u, col, o40, o41, shift_hi.x, total_hi.x);
  store(local_batch, row + 5u, col, o50, o51, shift_hi.y, total_hi.y);
  store(local_batch, row + 6u, col, o60, o61, shift_hi.z, total_hi.z);
  store(local_batch, row + 7u, col, o70, o71, shift_hi.w, total_hi.w);
}
