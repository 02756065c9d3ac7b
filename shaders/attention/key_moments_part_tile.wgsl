// 64 keys per group for GPUs: 64 threads, each 8 keys x 4 of 32 queries at a time; products or distances are summed over
// slices of 16 coordinates, so any head dimension fits. Per slice a thread reads 3 words of workgroup memory for 8 pairs.
@group(0) @binding(1) var<storage, read> q: array<f32>; // [b, h, n, d]
@group(0) @binding(2) var<storage, read> k: array<f32>; // [b, h, m, d]
@group(0) @binding(3) var<storage, read> lambda: array<f32>; // [h] or [1]
@group(0) @binding(4) var<storage, read> query_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(5) var<storage, read> row_shift: array<f32>; // [b, h, n, w]
@group(0) @binding(6) var<storage, read> before: array<f32>; // [b, h, m, 3]
@group(0) @binding(7) var<storage, read_write> moments: array<f32>; // [b, h, m, p]

// 16 coordinates of keys (stride 17 against bank conflicts) and of queries (stride 9); afterwards the exchange between
// the 8 threads of a key: means, squares, counts. 6.6 KiB.
const Q_AT: u32 = 272u;
const SQUARES_AT: u32 = 128u;
const TAKEN_AT: u32 = 256u;
var<workgroup> tile: array<vec4f, 416>;

fn load_q(start: u32, row: u32, c: u32) -> f32 {
  if (row >= params.n || c >= params.d) { return 0.0; }
  return q[start + row * params.d + c];
}

fn load_k(start: u32, key: u32, c: u32) -> f32 {
  if (key >= params.m || c >= params.d) { return 0.0; }
  return k[start + key * params.d + c];
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let key_tiles = (params.m + 63u) / 64u;
  let local_batch = group / key_tiles;
  let key0 = group % key_tiles * 64u;
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let q_from = params.q_at + local_batch * params.n * params.d;
  let k_from = params.k_at + local_batch * params.m * params.d;
  let query_mask_from = params.query_mask_at + b * params.query_mask_b + h * params.query_mask_h;
  let row_shift_from = params.row_shift_at + local_batch * params.n * params.w;
  var bandwidth = 1.0;
  if (METRIC != 0u) { bandwidth = lambda[params.lambda_at + h % params.bandwidths]; }
  let ty = thread / 8u;
  let tx = thread % 8u;

  // Of the thread's 8 keys over its own queries.
  var mean_lo = vec4f(); var mean_hi = vec4f();
  var squares_lo = vec4f(); var squares_hi = vec4f();
  var taken = 0.0;
  for (var query0 = 0u; query0 < params.n; query0 += 32u) {
    var s0lo = vec4f(); var s0hi = vec4f();
    var s1lo = vec4f(); var s1hi = vec4f();
    var s2lo = vec4f(); var s2hi = vec4f();
    var s3lo = vec4f(); var s3hi = vec4f();
    for (var c0 = 0u; c0 < params.d; c0 += 16u) {
      for (var t = thread; t < 256u; t += 64u) {
        let c = t % 16u;
        let j = key0 + 4u * (t / 16u);
        tile[c * 17u + t / 16u] = vec4f(load_k(k_from, j, c0 + c), load_k(k_from, j + 1u, c0 + c),
          load_k(k_from, j + 2u, c0 + c), load_k(k_from, j + 3u, c0 + c));
      }
      for (var t = thread; t < 128u; t += 64u) {
        let c = t % 16u;
        let r = query0 + 4u * (t / 16u);
        tile[Q_AT + c * 9u + t / 16u] = vec4f(load_q(q_from, r, c0 + c), load_q(q_from, r + 1u, c0 + c),
          load_q(q_from, r + 2u, c0 + c), load_q(q_from, r + 3u, c0 + c));
      }
      workgroupBarrier(); // both slices are complete before anyone reads them
      for (var c = 0u; c < 16u; c++) {
        let klo = tile[c * 17u + 2u * ty];
        let khi = tile[c * 17u + 2u * ty + 1u];
        let queries = tile[Q_AT + c * 9u + tx];
        s0lo += pair(queries.xxxx, klo); s0hi += pair(queries.xxxx, khi);
        s1lo += pair(queries.yyyy, klo); s1hi += pair(queries.yyyy, khi);
        s2lo += pair(queries.zzzz, klo); s2hi += pair(queries.zzzz, khi);
        s3lo += pair(queries.wwww, klo); s3hi += pair(queries.wwww, khi);
      }
      workgroupBarrier(); // nobody overwrites a slice that others still read
    }
    var first_lo = vec4f(); var first_hi = vec4f();
    var sum_lo = vec4f(); var sum_hi = vec4f();
    for (var t = 0u; t < 4u; t++) {
      let query = query0 + 4u * tx + t;
      if (query < params.n && query_is_kept(query_mask_from, query)) {
        var lo = s0lo; var hi = s0hi;
        if (t == 1u) { lo = s1lo; hi = s1hi; }
        if (t == 2u) { lo = s2lo; hi = s2hi; }
        if (t == 3u) { lo = s3lo; hi = s3hi; }
        let shift = vec4f(shift_of(row_shift_from, query));
        let x_lo = exp4(exponent(lo, bandwidth)) - shift;
        let x_hi = exp4(exponent(hi, bandwidth)) - shift;
        if (taken == 0.0) { mean_lo = x_lo; mean_hi = x_hi; }
        first_lo += x_lo - mean_lo;
        first_hi += x_hi - mean_hi;
        sum_lo += (x_lo - mean_lo) * (x_lo - mean_lo);
        sum_hi += (x_hi - mean_hi) * (x_hi - mean_hi);
        taken += 1.0;
      }
    }
    let step_lo = first_lo / max(taken, 1.0);
    let step_hi = first_hi / max(taken, 1.0);
    mean_lo += step_lo;
    mean_hi += step_hi;
    squares_lo += sum_lo - step_lo * first_lo;
    squares_hi += sum_hi - step_hi * first_hi;
  }

  let place = 16u * tx + 2u * ty;
  tile[place] = mean_lo;
  tile[place + 1u] = mean_hi;
  tile[SQUARES_AT + place] = squares_lo;
  tile[SQUARES_AT + place + 1u] = squares_hi;
  if (ty == 0u) { tile[TAKEN_AT + tx] = vec4f(taken); }
  workgroupBarrier(); // the first thread of each 8 keys sees the moments of all
  if (tx != 0u) { return; }
  for (var t = 1u; t < 8u; t++) {
    let other = tile[TAKEN_AT + t].x;
    let both = max(taken + other, 1.0);
    let apart_lo = tile[16u * t + 2u * ty] - mean_lo;
    let apart_hi = tile[16u * t + 2u * ty + 1u] - mean_hi;
    mean_lo += apart_lo * (other / both);
    mean_hi += apart_hi * (other / both);
    squares_lo += tile[SQUARES_AT + 16u * t + 2u * ty] + apart_lo * apart_lo * (taken * (other / both));
    squares_hi += tile[SQUARES_AT + 16u * t + 2u * ty + 1u] + apart_hi * apart_hi * (taken * (other / both));
    taken += other;
  }
  let key = key0 + 8u * ty;
  store(local_batch, key, mean_lo.x, squares_lo.x, taken);
  store(local_batch, key + 1u, mean_lo.y, squares_lo.y, taken);
  store(local_batch, key + 2u, mean_lo.z, squares_lo.z, taken);
  store(local_batch, key + 3u, mean_lo.w, squares_lo.w, taken);
  store(local_batch, key + 4u, mean_hi.x, squares_hi.x, taken);
  store(local_batch, key + 5u, mean_hi.y, squares_hi.y, taken);
  store(local_batch, key + 6u, mean_hi.z, squares_hi.z, taken);
  store(local_batch, key + 7u, mean_hi.w, squares_hi.w, taken);
}
