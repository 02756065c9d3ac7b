// The weights of one query per group of 256 threads, which share the keys: first all weights and their sum, then, unless
// RAW, each divided by it. A thread reads back only what it wrote itself.
@group(0) @binding(1) var<storage, read> q: array<f32>; // [b, h, n, r]
@group(0) @binding(2) var<storage, read> k: array<f32>; // [b, h, n, r]
@group(0) @binding(3) var<storage, read> table: array<f32>; // [h or 1, t]
@group(0) @binding(4) var<storage, read> key_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(5) var<storage, read> segment: array<u32>; // [n, 2]
@group(0) @binding(6) var<storage, read> rows: array<u32>; // [c]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [b, h, n, c]

var<workgroup> totals: array<f32, 256>;

fn load_q(at: u32, c: u32) -> f32 { return select(0.0, q[at + min(c, params.r - 1u)], c < params.r); }
fn load_k(at: u32, c: u32) -> f32 { return select(0.0, k[at + min(c, params.r - 1u)], c < params.r); }

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let local_batch = group / params.c;
  let number = group % params.c;
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let row = rows[params.rows_at + number];
  let q_from = params.q_at + (local_batch * params.n + min(row, params.n - 1u)) * params.r;
  let k_from = params.k_at + local_batch * params.n * params.r;
  let out_from = params.out_at + local_batch * params.n * params.c + number;
  let table_from = table_of(h);
  let key_mask_from = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h;
  let grid = whole_grid();
  let own = segment_of(min(row, params.n - 1u));
  let row_is_global = row < params.globals;
  var at = vec3i();
  if (!row_is_global && row < params.n) { at = coordinates(grid, row); }

  var total = 0.0;
  for (var key = thread; key < params.n; key += 256u) {
    let global = row_is_global || key < params.globals;
    var mask = 1.0;
    if (!global) {
      let place = place_of(grid, at, coordinates(grid, key));
      mask = 0.0;
      if (in_support(grid, place) && key >= own.x && key < own.y) { mask = entry_at(grid, table_from, place); }
    }
    var weight = 0.0;
    if (mask != 0.0 && row < params.n && key_is_kept(key_mask_from, key)) {
      let k_at = k_from + key * params.r;
      for (var c = 0u; c < params.r; c += 4u) {
        weight += load_q(q_from, c) * load_k(k_at, c) + load_q(q_from, c + 1u) * load_k(k_at, c + 1u)
          + load_q(q_from, c + 2u) * load_k(k_at, c + 2u) + load_q(q_from, c + 3u) * load_k(k_at, c + 3u);
      }
      weight *= mask;
    }
    total += weight;
    out[out_from + key * params.c] = weight;
  }
  if (RAW == 0u) {
    totals[thread] = total;
    for (var half = 128u; half > 0u; half /= 2u) {
      workgroupBarrier(); // the sums of the last level are there
      if (thread < half) { totals[thread] += totals[thread + half]; }
    }
    workgroupBarrier(); // the row's sum is there
    let sum = totals[0];
    let divisor = select(sum, 1.0, sum == 0.0);
    for (var key = thread; key < params.n; key += 256u) {
      let place = out_from + key * params.c;
      out[place] = out[place] / divisor;
    }
  }
}
