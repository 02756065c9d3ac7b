// One listed row and slice of 32 value columns per group of 64 threads, which share the row's keys; their sums are added in
// a fixed order.
@group(0) @binding(1) var<storage, read> q: array<f32>; // [b, h, n, r]
@group(0) @binding(2) var<storage, read> k: array<f32>; // [b, h, n, r]
@group(0) @binding(3) var<storage, read> v: array<f32>; // [b, h, n, e]
@group(0) @binding(4) var<storage, read> table: array<f32>; // [h or 1, t]
@group(0) @binding(5) var<storage, read> key_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(6) var<storage, read> segment: array<u32>; // [n, 2]
@group(0) @binding(7) var<storage, read> list: array<u32>; // [1 + c]: how many rows, then batch * n + row of each
@group(0) @binding(8) var<storage, read_write> out: array<f32>; // [c, e]

// Sums of the threads, [8 columns of 4, 64 threads]; then, in the first 64, their denominators. 8 KiB.
var<workgroup> shared_sums: array<vec4f, 512>;

// Without branches: the last feature or value stands for those past the end.
fn load_q(at: u32, c: u32) -> f32 { return select(0.0, q[at + min(c, params.r - 1u)], c < params.r); }
fn load_k(at: u32, c: u32) -> f32 { return select(0.0, k[at + min(c, params.r - 1u)], c < params.r); }
fn load_v(at: u32, col: u32) -> f32 { return v[at + min(col, params.e - 1u)]; }

fn values(at: u32, col: u32) -> vec4f {
  return vec4f(load_v(at, col), load_v(at, col + 1u), load_v(at, col + 2u), load_v(at, col + 3u));
}

fn store4(at: u32, col: u32, x: vec4f) {
  for (var c = 0u; c < 4u; c++) {
    if (col + c < params.e) { out[at + col + c] = x[c]; }
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let slices = (params.e + 31u) / 32u;
  let entry = group / slices;
  let col0 = group % slices * 32u;
  let out_from = params.out_at + entry * params.e;
  if (entry >= list[params.list_at]) {
    if (thread < 8u) { store4(out_from, col0 + 4u * thread, vec4f()); }
    return;
  }
  let listed = list[params.list_at + 1u + entry];
  let batch = listed / params.n;
  let row = listed % params.n;
  // Rows of heads outside this dispatch's window belong to another dispatch.
  if (batch < params.batch_from) { return; }
  let local_batch = batch - params.batch_from;
  if (params.q_at + (local_batch + 1u) * params.n * params.r > arrayLength(&q)) { return; }
  let b = batch / params.h;
  let h = batch % params.h;
  let q_from = params.q_at + (local_batch * params.n + row) * params.r;
  let k_from = params.k_at + local_batch * params.n * params.r;
  let v_from = params.v_at + local_batch * params.n * params.e;
  let table_from = table_of(h);
  let key_mask_from = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h;

  var y0 = vec4f(); var y1 = vec4f(); var y2 = vec4f(); var y3 = vec4f();
  var y4 = vec4f(); var y5 = vec4f(); var y6 = vec4f(); var y7 = vec4f();
  var total = 0.0;
  let grid = whole_grid();
  let visits = visits_of(grid, row);
  for (var step = thread; step < visits.total; step += 64u) {
    let seen = visit(grid, visits, table_from, step);
    if (!(seen.weight == 0.0) && key_is_kept(key_mask_from, seen.key)) {
      let at = k_from + seen.key * params.r;
      var product = 0.0;
      for (var c = 0u; c < params.r; c += 4u) {
        product += load_q(q_from, c) * load_k(at, c) + load_q(q_from, c + 1u) * load_k(at, c + 1u)
          + load_q(q_from, c + 2u) * load_k(at, c + 2u) + load_q(q_from, c + 3u) * load_k(at, c + 3u);
      }
      let weight = seen.weight * product;
      total += weight;
      let line = v_from + seen.key * params.e;
      y0 += weight * values(line, col0 + 0u);
      y1 += weight * values(line, col0 + 4u);
      y2 += weight * values(line, col0 + 8u);
      y3 += weight * values(line, col0 + 12u);
      y4 += weight * values(line, col0 + 16u);
      y5 += weight * values(line, col0 + 20u);
      y6 += weight * values(line, col0 + 24u);
      y7 += weight * values(line, col0 + 28u);
    }
  }

  shared_sums[0u + thread] = y0;
  shared_sums[64u + thread] = y1;
  shared_sums[128u + thread] = y2;
  shared_sums[192u + thread] = y3;
  shared_sums[256u + thread] = y4;
  shared_sums[320u + thread] = y5;
  shared_sums[384u + thread] = y6;
  shared_sums[448u + thread] = y7;
  for (var half = 32u; half > 0u; half /= 2u) {
    workgroupBarrier(); // the sums of the last level are there
    if (thread < half) {
      for (var t = 0u; t < 512u; t += 64u) { shared_sums[t + thread] += shared_sums[t + thread + half]; }
    }
  }
  workgroupBarrier(); // the row's sums are there
  let row_sum = shared_sums[64u * (thread % 8u)];
  workgroupBarrier(); // and have been read
  shared_sums[thread] = vec4f(total);
  for (var half = 32u; half > 0u; half /= 2u) {
    workgroupBarrier(); // the denominators of the last level are there
    if (thread < half) { shared_sums[thread] += shared_sums[thread + half]; }
  }
  workgroupBarrier(); // the row's denominator is there
  if (thread < 8u) {
    let sum = shared_sums[0].x;
    let divisor = select(sum, 1.0, sum == 0.0);
    store4(out_from, col0 + 4u * thread, select(row_sum / divisor, vec4f(), sum == 0.0));
  }
}
