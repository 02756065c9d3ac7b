// One listed row and slice of 32 value columns per group of 64 threads, for software drivers: keys and values come as
// texels, and up to 64 features of the query are in registers (HELD texels of 4). The threads share the row's keys, and
// their sums are added in a fixed order.
@group(0) @binding(1) var<storage, read> q: array<f32>; // [b, h, n, r]
@group(0) @binding(2) var k: texture_2d<f32>; // [b, h, n, r]
@group(0) @binding(3) var v: texture_2d<f32>; // [b, h, n, e]
@group(0) @binding(4) var<storage, read> table: array<f32>; // [h or 1, t]
@group(0) @binding(5) var<storage, read> key_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(6) var<storage, read> segment: array<u32>; // [n, 2]
@group(0) @binding(7) var<storage, read> list: array<u32>; // [1 + c]: how many rows, then batch * n + row of each
@group(0) @binding(8) var<storage, read_write> out: array<f32>; // [c, e]

// Sums of the threads, [8 columns of 4, 64 threads]; then, in the first 64, their denominators. 8 KiB.
var<workgroup> shared_sums: array<vec4f, 512>;

fn texel_k(at: u32) -> vec4f { return textureLoad(k, vec2u(at & 2047u, at >> 11u), 0); }
fn texel_v(at: u32) -> vec4f { return textureLoad(v, vec2u(at & 2047u, at >> 11u), 0); }

fn texel_q(at: u32, t: u32) -> vec4f {
  let c = at + 4u * t;
  return vec4f(q[c], q[c + 1u], q[c + 2u], q[c + 3u]);
}

// Features past the end are 0.
fn held_q(at: u32, t: u32) -> vec4f {
  var x = vec4f();
  if (t < HELD) { x = texel_q(at, t); }
  return x;
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
  let r_texels = params.r / 4u;
  let e_texels = params.e / 4u;
  let k_from = params.k_at / 4u + local_batch * params.n * r_texels;
  let v_from = params.v_at / 4u + local_batch * params.n * e_texels + col0 / 4u;
  let table_from = table_of(h);
  let key_mask_from = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h;

  let q0 = held_q(q_from, 0u);
  let q1 = held_q(q_from, 1u);
  let q2 = held_q(q_from, 2u);
  let q3 = held_q(q_from, 3u);
  let q4 = held_q(q_from, 4u);
  let q5 = held_q(q_from, 5u);
  let q6 = held_q(q_from, 6u);
  let q7 = held_q(q_from, 7u);
  let q8 = held_q(q_from, 8u);
  let q9 = held_q(q_from, 9u);
  let q10 = held_q(q_from, 10u);
  let q11 = held_q(q_from, 11u);
  let q12 = held_q(q_from, 12u);
  let q13 = held_q(q_from, 13u);
  let q14 = held_q(q_from, 14u);
  let q15 = held_q(q_from, 15u);
  var y0 = vec4f(); var y1 = vec4f(); var y2 = vec4f(); var y3 = vec4f();
  var y4 = vec4f(); var y5 = vec4f(); var y6 = vec4f(); var y7 = vec4f();
  var total = 0.0;
  let grid = whole_grid();
  let visits = visits_of(grid, row);
  for (var step = thread; step < visits.total; step += 64u) {
    let seen = visit(grid, visits, table_from, step);
    if (!(seen.weight == 0.0) && key_is_kept(key_mask_from, seen.key)) {
      let at = k_from + seen.key * r_texels;
      var sums = vec4f();
      if (HELD > 0u) { sums += q0 * texel_k(at + 0u); }
      if (HELD > 1u) { sums += q1 * texel_k(at + 1u); }
      if (HELD > 2u) { sums += q2 * texel_k(at + 2u); }
      if (HELD > 3u) { sums += q3 * texel_k(at + 3u); }
      if (HELD > 4u) { sums += q4 * texel_k(at + 4u); }
      if (HELD > 5u) { sums += q5 * texel_k(at + 5u); }
      if (HELD > 6u) { sums += q6 * texel_k(at + 6u); }
      if (HELD > 7u) { sums += q7 * texel_k(at + 7u); }
      if (HELD > 8u) { sums += q8 * texel_k(at + 8u); }
      if (HELD > 9u) { sums += q9 * texel_k(at + 9u); }
      if (HELD > 10u) { sums += q10 * texel_k(at + 10u); }
      if (HELD > 11u) { sums += q11 * texel_k(at + 11u); }
      if (HELD > 12u) { sums += q12 * texel_k(at + 12u); }
      if (HELD > 13u) { sums += q13 * texel_k(at + 13u); }
      if (HELD > 14u) { sums += q14 * texel_k(at + 14u); }
      if (HELD > 15u) { sums += q15 * texel_k(at + 15u); }
      for (var t = 16u; t < r_texels; t++) { sums += texel_q(q_from, t) * texel_k(at + t); }
      let weight = seen.weight * ((sums.x + sums.y) + (sums.z + sums.w));
      total += weight;
      let line = v_from + seen.key * e_texels;
      if (WIDTH > 0u) { y0 += weight * texel_v(line + min(0u, e_texels - 1u - col0 / 4u)); }
      if (WIDTH > 1u) { y1 += weight * texel_v(line + min(1u, e_texels - 1u - col0 / 4u)); }
      if (WIDTH > 2u) { y2 += weight * texel_v(line + min(2u, e_texels - 1u - col0 / 4u)); }
      if (WIDTH > 3u) { y3 += weight * texel_v(line + min(3u, e_texels - 1u - col0 / 4u)); }
      if (WIDTH > 4u) { y4 += weight * texel_v(line + min(4u, e_texels - 1u - col0 / 4u)); }
      if (WIDTH > 5u) { y5 += weight * texel_v(line + min(5u, e_texels - 1u - col0 / 4u)); }
      if (WIDTH > 6u) { y6 += weight * texel_v(line + min(6u, e_texels - 1u - col0 / 4u)); }
      if (WIDTH > 7u) { y7 += weight * texel_v(line + min(7u, e_texels - 1u - col0 / 4u)); }
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
