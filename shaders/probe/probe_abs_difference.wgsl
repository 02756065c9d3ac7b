// Eight independent chains s <- b - |s - a| per thread in registers (see probe_fma), sixteen steps a round. x, out [b, h, n].
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
  let a = params.centre;
  let b = params.height;
  let start = x[params.x_at + at];
  var s0 = start + 0.0;
  var s1 = start + 0.125;
  var s2 = start + 0.25;
  var s3 = start + 0.375;
  var s4 = start + 0.5;
  var s5 = start + 0.625;
  var s6 = start + 0.75;
  var s7 = start + 0.875;
  for (var round = 0u; round < params.rounds; round++) {
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
    s0 = b - abs(s0 - a); s1 = b - abs(s1 - a); s2 = b - abs(s2 - a); s3 = b - abs(s3 - a);
    s4 = b - abs(s4 - a); s5 = b - abs(s5 - a); s6 = b - abs(s6 - a); s7 = b - abs(s7 - a);
  }
  out[params.out_at + at] = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7));
}
