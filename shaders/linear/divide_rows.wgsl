// out[i, c] = x[i, c] / x[i, e], 0 where the denominator is 0 or the row is left out. One thread per element of x; the
// thread of the last column writes the denominator.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> query_mask: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<storage, read_write> den: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.n * params.p;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let row = item / params.p;
  let col = item % params.p;
  let batch = params.batch_from + local_batch;
  var kept = true;
  if (HAS_QUERY_MASK) {
    let at = params.query_mask_at + batch / params.h * params.query_mask_b + batch % params.h * params.query_mask_h + row;
    kept = byte_of(query_mask[at >> 2u], at) != 0u;
  }
  let line = local_batch * params.n + row;
  var below = 0.0;
  if (kept) { below = x[params.x_at + line * params.p + params.e]; }
  if (col == params.e) {
    if (HAS_DEN) { den[params.den_at + line] = below; }
    return;
  }
  var value = 0.0;
  if (!(below == 0.0)) { value = x[params.x_at + line * params.p + col] / below; }
  out[params.out_at + line * params.e + col] = value;
}
