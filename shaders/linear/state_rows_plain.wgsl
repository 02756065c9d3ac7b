// One query row and up to 32 value columns per thread, straight from storage.
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> state: array<f32>;
@group(0) @binding(3) var<storage, read> query_mask: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<storage, read_write> den: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let slices = (params.e + 31u) / 32u;
  let row_groups = (params.n + 63u) / 64u;
  let col0 = group % slices * 32u;
  let local_batch = group / slices / row_groups;
  let i = group / slices % row_groups * 64u + thread;
  if (i >= params.n) { return; }
  let batch = params.batch_from + local_batch;
  var kept = true;
  if (HAS_QUERY_MASK) {
    let at = params.query_mask_at + batch / params.h * params.query_mask_b + batch % params.h * params.query_mask_h + i;
    kept = byte_of(query_mask[at >> 2u], at) != 0u;
  }
  let columns = min(params.e - col0, 32u);
  let q_from = params.q_at + (local_batch * params.n + i) * params.r;
  let state_from = params.state_at + local_batch * params.s;
  var total = 0.0;
  var sums: array<f32, 32>;
  for (var c = 0u; c < 32u; c++) { sums[c] = 0.0; }
  if (kept) {
    for (var l = 0u; l < params.r; l++) {
      let weight = q[q_from + l];
      total += weight * state[state_from + params.r * params.e + l];
      let line = state_from + l * params.e + col0;
      for (var c = 0u; c < columns; c++) { sums[c] += weight * state[line + c]; }
    }
  }
  let at = params.out_at + (local_batch * params.n + i) * params.e + col0;
  for (var c = 0u; c < columns; c++) {
    var value = 0.0;
    if (!(total == 0.0)) { value = sums[c] / total; }
    out[at + c] = value;
  }
  if (HAS_DEN) {
    if (col0 == 0u) { den[params.den_at + local_batch * params.n + i] = total; }
  }
}
