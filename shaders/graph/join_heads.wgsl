// y[i, h e + c] = x[h, i, c], through ELU where asked. One thread per number.
@group(0) @binding(1) var<storage, read> x: array<f32>; // [batch, heads, n, e]
@group(0) @binding(2) var<storage, read_write> y: array<f32>; // [batch, 1, n, p]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let item = group * 64u + thread;
  if (item >= params.batch * params.n * params.p) { return; }
  let row = item / params.p;
  let head = item % params.p / params.e;
  let at = ((row / params.n * params.heads + head) * params.n + row % params.n) * params.e + item % params.e;
  var value = x[params.x_at + at];
  if (ELU != 0u && value < 0.0) { value = exp_minus_one(value); }
  y[params.y_at + item] = value;
}

// e^x - 1 for x < 0: near 0 by its series, because the difference would lose the digits of a small x.
fn exp_minus_one(x: f32) -> f32 {
  let near = x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0 + x * (1.0 / 720.0))))));
  return select(exp_accurate(x) - 1.0, near, x > -0.3);
}
