// Count and first place of NaN and infinities in each part of ROWS rows: one workgroup per part.
// x [b, h, n], parts [b, h, g, 2], g = n / ROWS rounded up; the place counts from the part's begin.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> parts: array<u32>;

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
  let batch = group / params.g;
  let begin = group % params.g * ROWS;
  let len = min(ROWS, params.n - begin);
  var mine = 0u;
  var mine_first = 0xffffffffu;
  for (var i = thread; i < len; i += 256u) {
    // By the bits: some drivers say that NaN equals itself.
    if ((bitcast<u32>(x[params.x_at + batch * params.n + begin + i]) & 0x7f800000u) == 0x7f800000u) {
      mine += 1u;
      mine_first = min(mine_first, i);
    }
  }
  if (mine > 0u) {
    atomicAdd(&found, mine);
    atomicMin(&first, mine_first);
  }
  workgroupBarrier(); // every thread has added its finds
  if (thread == 0u) {
    let at = params.parts_at + 2u * group;
    parts[at] = atomicLoad(&found);
    parts[at + 1u] = atomicLoad(&first);
  }
}
