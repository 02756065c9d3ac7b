// out[row] = sum of x[row, 0..n]. One workgroup per row: strided partial sums, then subgroup sums.
// Nothing is assumed about how threads fall into subgroups or how wide these are (4 to 128, and it may vary between
// pipelines): a subgroup's sum goes to the slot of its lowest thread, all other slots are 0, and then every subgroup adds
// up all slots in steps of the width it reads here.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

var<workgroup> slots: array<f32, 64>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32,
  @builtin(subgroup_size) width: u32, @builtin(subgroup_invocation_id) lane: u32,
) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let row = params.x_at + group * params.n;
  // Four chains per thread: shorter chains round less and do not wait for each other.
  var sums = vec4f();
  for (var i = thread; i < params.n; i += 256u) {
    sums.x += x[row + i];
    if (i + 64u < params.n) { sums.y += x[row + i + 64u]; }
    if (i + 128u < params.n) { sums.z += x[row + i + 128u]; }
    if (i + 192u < params.n) { sums.w += x[row + i + 192u]; }
  }
  let lowest = subgroupMin(thread);
  let total = subgroupAdd((sums.x + sums.y) + (sums.z + sums.w));
  slots[thread] = select(0.0, total, thread == lowest);
  workgroupBarrier(); // every slot is written
  var all = 0.0;
  for (var slot = lane; slot < 64u; slot += width) { all += slots[slot]; }
  let result = subgroupAdd(all);
  if (thread == 0u) { out[params.out_at + group] = result; }
}
