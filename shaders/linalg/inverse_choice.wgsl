// Takes the first iterate where its residual is at most 1e-2, else the second where its own is, else the first with a
// code that says so. One thread per element; the first thread of a matrix writes its status.
// Residuals are compared by their bits: a number that is not negative orders like its bits, and NaN's are the largest.
@group(0) @binding(1) var<storage, read> first: array<f32>;
@group(0) @binding(2) var<storage, read> first_residual: array<f32>;
@group(0) @binding(3) var<storage, read> second: array<f32>;
@group(0) @binding(4) var<storage, read> second_residual: array<f32>;
@group(0) @binding(5) var<storage, read> bound: array<f32>;
@group(0) @binding(6) var<storage, read_write> x: array<f32>;
@group(0) @binding(7) var<storage, read_write> status: array<f32>;

fn acceptable(value: f32) -> bool { return bitcast<u32>(value) <= bitcast<u32>(f32(0.01)); }

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.m * params.m;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let one = first_residual[params.first_residual_at + local_batch];
  let two = second_residual[params.second_residual_at + local_batch];
  var code = 0u;
  if (!acceptable(one)) { code = select(3u, 2u, acceptable(two)); }
  let at = local_batch * params.s * params.s + item / params.m * params.s + item % params.m;
  var value = first[params.first_at + at];
  if (code == 2u) { value = second[params.second_at + at]; }
  x[params.x_at + local_batch * size + item] = value;
  if (item == 0u) {
    let to = params.status_at + 4u * local_batch;
    status[to] = select(one, two, code == 2u);
    status[to + 1u] = bound[params.bound_at + 2u * local_batch];
    status[to + 2u] = bound[params.bound_at + 2u * local_batch + 1u];
    status[to + 3u] = f32(code);
  }
}
