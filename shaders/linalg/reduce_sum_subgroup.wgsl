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
  var sum = 0.0;
  for (var i = thread; i < params.n; i += 64u) { sum += x[row + i]; }
  let lowest = subgroupMin(thread);
  let total = subgroupAdd(sum);
  slots[thread] = select(0.0, total, thread == lowest);
  workgroupBarrier(); // every slot is written
  var all = 0.0;
  for (var slot = lane; slot < 64u; slot += width) { all += slots[slot]; }
  let result = subgroupAdd(all);
  if (thread == 0u) { out[params.out_at + group] = result; }
}
