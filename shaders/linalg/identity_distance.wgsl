// out[batch] = Frobenius norm of I - P over the leading `size` rows and columns. One workgroup per matrix.
@group(0) @binding(1) var<storage, read> p: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

var<workgroup> partial: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let matrix = params.p_at + group * params.m * params.m;
  var sum = 0.0;
  for (var at = thread; at < params.size * params.size; at += 256u) {
    let row = at / params.size;
    let col = at % params.size;
    let miss = p[matrix + row * params.m + col] - select(0.0, 1.0, row == col);
    sum += miss * miss;
  }
  partial[thread] = sum;
  for (var half = 128u; half > 0u; half /= 2u) {
    workgroupBarrier(); // the sums of the level above are written
    if (thread < half) { partial[thread] += partial[thread + half]; }
  }
  if (thread == 0u) { out[params.out_at + group] = sqrt(partial[0]); }
}
