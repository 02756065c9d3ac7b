// out[l, c] = mean of coordinate c over the kept tokens of cell l; one thread per landmark and coordinate.
@group(0) @binding(1) var<storage, read> k: array<f32>;
@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(3) var<storage, read> cells: array<u32>;
@group(0) @binding(4) var<storage, read> keep: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
@group(0) @binding(6) var<storage, read_write> valid: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.m * params.d + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= params.m * params.d) { return; }
  let landmark = item / params.d;
  let c = item % params.d;
  let batch = params.batch_from + local_batch;
  let cell = params.cells_at + 5u * landmark;
  let of_queries = cells[cell] == 1u;
  let keep_start = params.keep_at + batch / params.h * params.keep_b + batch % params.h * params.keep_h;
  var sum = 0.0;
  var members = 0u;
  for (var row = cells[cell + 1u]; row < cells[cell + 2u]; row++) {
    for (var col = cells[cell + 3u]; col < cells[cell + 4u]; col++) {
      let token = row * params.grid_cols + col;
      if (HAS_Q && of_queries) {
        sum += q[params.q_at + (local_batch * params.nq + token) * params.d + c];
        members += 1u;
      } else {
        var kept = true;
        if (HAS_KEEP) { kept = byte_of(keep[(keep_start + token) >> 2u], keep_start + token) != 0u; }
        if (kept) {
          sum += k[params.k_at + (local_batch * params.n + token) * params.d + c];
          members += 1u;
        }
      }
    }
  }
  out[params.out_at + local_batch * params.m * params.d + item] = select(0.0, sum / f32(max(members, 1u)), members > 0u);
  if (c == 0u) { valid[params.valid_at + local_batch * params.m + landmark] = select(0u, 1u, members > 0u); }
}
