// Rows of a kernel matrix whitened by the moments of their keys, one element per thread.
@group(0) @binding(1) var<storage, read> x: array<f32>; // [b, h, m, r]
@group(0) @binding(2) var<storage, read> shift: array<f32>; // [b, h, r, w]
@group(0) @binding(3) var<storage, read> moments: array<f32>; // [b, h, m, 2]
@group(0) @binding(4) var<storage, read_write> out: array<f32>; // [b, h, m, r]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.m * params.r;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let element = group % groups_per_batch * 64u + thread;
  if (element >= size) { return; }
  let at = local_batch * size + element;
  let key = params.moments_at + (local_batch * params.m + element / params.r) * 2u;
  var value = x[params.x_at + at];
  if (HAS_SHIFT) {
    let query = local_batch * params.r + element % params.r;
    value -= shift[params.shift_at + query * params.w];
  }
  if (CENTRED == 1u) { value -= moments[key]; }
  let deviation = sqrt(max(moments[key + 1u], 0.0) + params.ew);
  out[params.out_at + at] = value / deviation * params.scale + params.constant;
}
