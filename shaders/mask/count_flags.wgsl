// How many of each part's flags are set: one group per part of PART flags.
@group(0) @binding(1) var<storage, read> flags: array<u32>; // [total]
@group(0) @binding(2) var<storage, read_write> counts: array<u32>; // [parts]

var<workgroup> found: atomic<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  if (thread == 0u) { atomicStore(&found, 0u); }
  workgroupBarrier(); // workgroup memory is not zero at the start
  let begin = group * PART;
  let end = min(begin + PART, params.total);
  var mine = 0u;
  for (var i = begin + thread; i < end; i += 64u) { mine += select(0u, 1u, flags[params.flags_at + i] != 0u); }
  if (mine > 0u) { atomicAdd(&found, mine); }
  workgroupBarrier(); // every thread has added its own
  if (thread == 0u) { counts[params.counts_at + group] = atomicLoad(&found); }
}
