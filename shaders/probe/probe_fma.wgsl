// Twelve independent chains of multiply-adds per thread, as three vec4f: enough to hide the latency of one, few enough
// to stay in registers. x, out [b, h, n].
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 63u) / 64u;
  let place = group % groups_per_batch * 64u + thread;
  if (place >= params.n) { return; }
  let at = group / groups_per_batch * params.n + place;
  let f = vec4f(params.factor);
  let g = vec4f(params.addend);
  var s = vec4f(x[params.x_at + at]) + vec4f(0.0, 0.125, 0.25, 0.375);
  var t = s + vec4f(0.5);
  var u = s + vec4f(1.0);
  for (var round = 0u; round < params.rounds; round++) {
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
    s = s * f + g; t = t * f + g; u = u * f + g;
  }
  let sums = s + t + u;
  out[params.out_at + at] = (sums.x + sums.y) + (sums.z + sums.w);
}
