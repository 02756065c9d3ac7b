// out[row] = sum of x[row, 0..n]. One workgroup per row: strided partial sums, then a tree.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

var<workgroup> partial: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
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
  partial[thread] = (sums.x + sums.y) + (sums.z + sums.w);
  for (var half = 32u; half > 0u; half /= 2u) {
    workgroupBarrier(); // the sums of the level above are written
    if (thread < half) { partial[thread] += partial[thread + half]; }
  }
  if (thread == 0u) { out[params.out_at + group] = partial[0]; }
}
