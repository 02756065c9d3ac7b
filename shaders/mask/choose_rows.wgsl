// A finished row per thread and column: the listed one where the row has a slot, else the sums over their denominator.
@group(0) @binding(1) var<storage, read> sums: array<f32>; // [b, h, n, p]
@group(0) @binding(2) var<storage, read> slot: array<u32>; // [b, h, n]
@group(0) @binding(3) var<storage, read> listed: array<f32>; // [c, e]
@group(0) @binding(4) var<storage, read> query_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(5) var<storage, read_write> out: array<f32>; // [b, h, n, e]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.n * params.e;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let element = group % groups_per_batch * 64u + thread;
  if (element >= size) { return; }
  let row = element / params.e;
  let col = element % params.e;
  let batch = params.batch_from + local_batch;
  let place = slot[params.slot_at + local_batch * params.n + row];
  var asked = true;
  if (HAS_QUERY_MASK) {
    let at = params.query_mask_at + batch / params.h * params.query_mask_b + batch % params.h * params.query_mask_h + row;
    asked = ((query_mask[at >> 2u] >> ((at & 3u) * 8u)) & 0xffu) != 0u;
  }
  var value = 0.0;
  if (asked) {
    if (place < params.c) {
      value = listed[params.listed_at + place * params.e + col];
    } else {
      let at = params.sums_at + (local_batch * params.n + row) * params.p;
      value = sums[at + col];
      if (params.p > params.e) {
        let total = sums[at + params.e];
        value = select(value / select(total, 1.0, total == 0.0), 0.0, total == 0.0);
      }
    }
  }
  out[params.out_at + local_batch * size + element] = value;
}
