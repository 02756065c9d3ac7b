// out[chunk, c] = sum over the chunk's rows of weight[i] (x[i, c] - shift[c])^POWER; one thread per chunk and column,
// so that neighbouring threads read neighbouring words.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> shift: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_blocks = (params.m + 63u) / 64u;
  let local_batch = group / (params.c * col_blocks);
  let chunk = group / col_blocks % params.c;
  let col = group % col_blocks * 64u + thread;
  if (col >= params.m) { return; }
  var less = 0.0;
  if (HAS_SHIFT) { less = shift[params.shift_at + local_batch * params.m + col]; }
  let first = chunk * params.rows;
  let end = min(first + params.rows, params.n);
  var sum = 0.0;
  for (var i = first; i < end; i++) {
    var factor = 1.0;
    if (HAS_WEIGHT) { factor = weight[params.weight_at + local_batch * params.n + i]; }
    if (factor != 0.0) {
      let value = x[params.x_at + (local_batch * params.n + i) * params.m + col] - less;
      sum += factor * select(value, value * value, POWER == 2u);
    }
  }
  out[params.out_at + (local_batch * params.c + chunk) * params.m + col] = sum;
}
