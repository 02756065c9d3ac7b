// The places of all set flags in ascending order: one group per part of PART flags adds up the counts of the parts before
// it, and then numbers its own. Rows that are not flagged fill the rest of the list in their order, so that every entry is
// written. The first group also writes how many there are and the workgroups that the listed rows want.
@group(0) @binding(1) var<storage, read> flags: array<u32>; // [total]
@group(0) @binding(2) var<storage, read> counts: array<u32>; // [parts]
@group(0) @binding(3) var<storage, read_write> slot: array<u32>; // [total]
@group(0) @binding(4) var<storage, read_write> list: array<u32>; // [w]
@group(0) @binding(5) var<storage, read_write> dispatch: array<u32>; // [3]
@group(0) @binding(6) var<storage, read_write> status: array<u32>; // [2]

const NONE: u32 = 0xffffffffu;

var<workgroup> before: atomic<u32>;
var<workgroup> all_of_them: atomic<u32>;
var<workgroup> of_thread: array<u32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  if (thread == 0u) {
    atomicStore(&before, 0u);
    atomicStore(&all_of_them, 0u);
  }
  workgroupBarrier(); // workgroup memory is not zero at the start
  var earlier = 0u;
  var every = 0u;
  for (var i = thread; i < params.parts; i += 64u) {
    let part = counts[params.counts_at + i];
    every += part;
    if (i < group) { earlier += part; }
  }
  atomicAdd(&before, earlier);
  atomicAdd(&all_of_them, every);
  // Each thread numbers a run of neighbours.
  let capacity = params.w - 1u;
  let run = PART / 64u;
  let begin = min(group * PART + thread * run, params.total);
  let end = min(begin + run, params.total);
  var mine = 0u;
  for (var i = begin; i < end; i++) { mine += select(0u, 1u, flags[params.flags_at + i] != 0u); }
  of_thread[thread] = mine;
  workgroupBarrier(); // every thread has added its counts
  var next = atomicLoad(&before);
  for (var t = 0u; t < thread; t++) { next += of_thread[t]; }
  let found = atomicLoad(&all_of_them);
  for (var i = begin; i < end; i++) {
    let flagged = flags[params.flags_at + i] != 0u;
    slot[params.slot_at + i] = select(NONE, next, flagged);
    // i - next rows before this one are not flagged.
    let place = select(found + (i - next), next, flagged);
    if (place < capacity) { list[params.list_at + 1u + place] = select(NONE, i, flagged); }
    next += select(0u, 1u, flagged);
  }
  if (group == 0u && thread == 0u) {
    list[params.list_at] = min(found, capacity);
    let wanted = min(found, capacity) * params.groups_per_row;
    // As few lines of at most 65535 groups as will do.
    let lines = max(1u, (wanted + 65534u) / 65535u);
    dispatch[params.dispatch_at] = (wanted + lines - 1u) / lines;
    dispatch[params.dispatch_at + 1u] = lines;
    dispatch[params.dispatch_at + 2u] = 1u;
    status[params.status_at] = found;
    status[params.status_at + 1u] = params.total;
  }
}
