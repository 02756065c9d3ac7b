// Twelve independent chains s <- b - |s - a| per thread, as three vec4f, sixteen steps a round. x, out [b, h, n].
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
  let a = vec4f(params.centre);
  let b = vec4f(params.height);
  var s = vec4f(x[params.x_at + at]) + vec4f(0.0, 0.125, 0.25, 0.375);
  var t = s + vec4f(0.5);
  var u = s + vec4f(1.0);
  for (var round = 0u; round < params.rounds; round++) {
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
    s = b - abs(s - a); t = b - abs(t - a); u = b - abs(u - a);
  }
  let sums = s + t + u;
  out[params.out_at + at] = (sums.x + sums.y) + (sums.z + sums.w);
}
