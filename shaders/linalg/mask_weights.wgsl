// weights[i] = keep[i] / (number kept), inverse[0] = 1 / (number kept), both 0 where nothing is kept. One workgroup per
// head: count, then write.
@group(0) @binding(1) var<storage, read> keep: array<u32>;
@group(0) @binding(2) var<storage, read_write> weights: array<f32>;
@group(0) @binding(3) var<storage, read_write> inverse: array<f32>;

var<workgroup> counts: array<u32, 64>;

fn is_kept(at: u32) -> bool { return byte_of(keep[at >> 2u], at) != 0u; }

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let batch = params.batch_from + group;
  let start = params.keep_at + batch / params.h * params.keep_b + batch % params.h * params.keep_h;
  var mine = 0u;
  for (var i = thread; i < params.n; i += 64u) {
    if (is_kept(start + i)) { mine += 1u; }
  }
  counts[thread] = mine;
  workgroupBarrier(); // all counts are there before anyone adds them
  var total = 0u;
  for (var i = 0u; i < 64u; i++) { total += counts[i]; }
  let share = select(0.0, 1.0 / f32(max(total, 1u)), total > 0u);
  for (var i = thread; i < params.n; i += 64u) {
    weights[params.weights_at + group * params.n + i] = select(0.0, share, is_kept(start + i));
  }
  if (thread == 0u) { inverse[params.inverse_at + group] = share; }
}
