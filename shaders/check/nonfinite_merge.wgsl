// Sum of counts and first place over all parts, in one workgroup.
// parts [parts, 2], out [2].
@group(0) @binding(1) var<storage, read> parts: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

var<workgroup> found: atomic<u32>;
var<workgroup> first: atomic<u32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  if (thread == 0u) {
    atomicStore(&found, 0u);
    atomicStore(&first, 0xffffffffu);
  }
  workgroupBarrier(); // workgroup memory is not zero at the start
  for (var i = thread; i < params.parts; i += 256u) {
    let at = params.parts_at + 2u * i;
    if (parts[at] > 0u) {
      atomicAdd(&found, parts[at]);
      atomicMin(&first, i * params.rows + parts[at + 1u]);
    }
  }
  workgroupBarrier(); // every thread has added its parts
  if (thread == 0u) {
    out[params.out_at] = atomicLoad(&found);
    out[params.out_at + 1u] = atomicLoad(&first);
  }
}
