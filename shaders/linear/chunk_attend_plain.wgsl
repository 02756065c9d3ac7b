// One query row and up to 32 value columns per thread, straight from storage.
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> k: array<f32>;
@group(0) @binding(3) var<storage, read> v: array<f32>;
@group(0) @binding(4) var<storage, read> powers: array<f32>;
@group(0) @binding(5) var<storage, read> key_mask: array<u32>;
@group(0) @binding(6) var<storage, read> reach: array<u32>;
@group(0) @binding(7) var<storage, read> states: array<f32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let slices = max((params.e + 31u) / 32u, 1u);
  let row_groups = (params.n + 63u) / 64u;
  let col0 = group % slices * 32u;
  let local_batch = group / slices / row_groups;
  let i = group / slices % row_groups * 64u + thread;
  if (i >= params.n) { return; }
  let batch = params.batch_from + local_batch;
  let mask_from = key_mask_start(batch);
  let reach_from = reach_start(batch);
  let powers_from = powers_start(batch);
  let chunk = i / params.rows;
  let first = chunk * params.rows;
  let end = min(first + params.rows, params.n);
  let columns = params.e - col0;
  let q_from = params.q_at + (local_batch * params.n + i) * params.r;
  let k_from = params.k_at + local_batch * params.n * params.r;
  let v_from = params.v_at + local_batch * params.n * params.e + col0;
  let seen = reach_of(reach_from, i);
  var total = 0.0;
  var sums: array<f32, 32>;
  for (var c = 0u; c < 32u; c++) { sums[c] = 0.0; }
  let last = select(i + 1u, end, TWO_SIDED == 1u);
  for (var j = first; j < last; j++) {
    let distance = select(i - j, j - i, j > i);
    if (distance >= select(seen.x, seen.y, j > i) || !key_counts(mask_from, reach_from, j)) { continue; }
    let at = k_from + j * params.r;
    var product = 0.0;
    for (var l = 0u; l < params.r; l++) { product += q[q_from + l] * k[at + l]; }
    let weight = product * power(powers_from, distance);
    total += weight;
    let line = v_from + j * params.e;
    for (var c = 0u; c < min(columns, 32u); c++) { sums[c] += weight * v[line + c]; }
  }
  for (var side = 0u; side <= TWO_SIDED; side++) {
    let distance = select(i - first + 1u, end - i, side == 1u);
    if (select(seen.x, seen.y, side == 1u) <= distance) { continue; }
    let state = params.states_at + (local_batch * params.c + chunk) * params.s + side * params.r * (params.e + 1u);
    let decay = power(powers_from, distance);
    for (var l = 0u; l < params.r; l++) {
      let weight = q[q_from + l] * decay;
      total += weight * states[state + params.r * params.e + l];
      let line = state + l * params.e + col0;
      for (var c = 0u; c < min(columns, 32u); c++) { sums[c] += weight * states[line + c]; }
    }
  }
  let at = params.out_at + (local_batch * params.n + i) * params.p;
  for (var c = 0u; c < min(columns, 32u); c++) {
    var value = sums[c];
    if (DIVIDE == 1u) {
      value = 0.0;
      if (!(total == 0.0)) { value = sums[c] / total; }
    }
    out[at + col0 + c] = value;
  }
  if (DIVIDE == 0u && col0 == 0u) { out[at + params.e] = total; }
}
