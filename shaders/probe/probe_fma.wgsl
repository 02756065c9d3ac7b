// Ten independent chains of multiply-adds per thread: enough to hide the latency of one, and together with both constants few enough
// to stay in a processor's sixteen registers, which is why these are no vectors. Sixteen steps a round. x, out [b, h, n].
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
  let f = params.factor;
  let g = params.addend;
  let start = x[params.x_at + at];
  var s0 = start + 0.0;
  var s1 = start + 0.125;
  var s2 = start + 0.25;
  var s3 = start + 0.375;
  var s4 = start + 0.5;
  var s5 = start + 0.625;
  var s6 = start + 0.75;
  var s7 = start + 0.875;
  var s8 = start + 1.0;
  var s9 = start + 1.125;
  for (var round = 0u; round < params.rounds; round++) {
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
    s0 = s0 * f + g; s1 = s1 * f + g; s2 = s2 * f + g; s3 = s3 * f + g; s4 = s4 * f + g;
    s5 = s5 * f + g; s6 = s6 * f + g; s7 = s7 * f + g; s8 = s8 * f + g; s9 = s9 * f + g;
  }
  out[params.out_at + at] = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)) + (s8 + s9);
}
