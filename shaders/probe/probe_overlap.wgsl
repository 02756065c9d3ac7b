// Ten chains of multiply-adds, whose addends are one texel a round: seven steps of each. x [b, h, m], out [b, h, n].
@group(0) @binding(1) var x: texture_2d<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

fn texel(batch: u32, at: u32) -> vec4f { return textureLoad(x, texel_place(params.x_at / 4u + batch * TEXELS + at % TEXELS), 0); }

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 63u) / 64u;
  let batch = group / groups_per_batch;
  let place = group % groups_per_batch * 64u + thread;
  var s0 = 0.0;
  var s1 = 1.0;
  var s2 = 2.0;
  var s3 = 3.0;
  var s4 = 4.0;
  var s5 = 5.0;
  var s6 = 6.0;
  var s7 = 7.0;
  var s8 = 8.0;
  var s9 = 9.0;
  for (var round = 0u; round < ROUNDS; round++) {
    let a = texel(batch, place + round);
    s0 = s0 * 0.5 + a.x; s1 = s1 * 0.5 + a.y; s2 = s2 * 0.5 + a.z; s3 = s3 * 0.5 + a.w; s4 = s4 * 0.5 + a.x;
    s5 = s5 * 0.5 + a.y; s6 = s6 * 0.5 + a.z; s7 = s7 * 0.5 + a.w; s8 = s8 * 0.5 + a.x; s9 = s9 * 0.5 + a.y;
    s0 = s0 * 0.5 + a.x; s1 = s1 * 0.5 + a.y; s2 = s2 * 0.5 + a.z; s3 = s3 * 0.5 + a.w; s4 = s4 * 0.5 + a.x;
    s5 = s5 * 0.5 + a.y; s6 = s6 * 0.5 + a.z; s7 = s7 * 0.5 + a.w; s8 = s8 * 0.5 + a.x; s9 = s9 * 0.5 + a.y;
    s0 = s0 * 0.5 + a.x; s1 = s1 * 0.5 + a.y; s2 = s2 * 0.5 + a.z; s3 = s3 * 0.5 + a.w; s4 = s4 * 0.5 + a.x;
    s5 = s5 * 0.5 + a.y; s6 = s6 * 0.5 + a.z; s7 = s7 * 0.5 + a.w; s8 = s8 * 0.5 + a.x; s9 = s9 * 0.5 + a.y;
    s0 = s0 * 0.5 + a.x; s1 = s1 * 0.5 + a.y; s2 = s2 * 0.5 + a.z; s3 = s3 * 0.5 + a.w; s4 = s4 * 0.5 + a.x;
    s5 = s5 * 0.5 + a.y; s6 = s6 * 0.5 + a.z; s7 = s7 * 0.5 + a.w; s8 = s8 * 0.5 + a.x; s9 = s9 * 0.5 + a.y;
    s0 = s0 * 0.5 + a.x; s1 = s1 * 0.5 + a.y; s2 = s2 * 0.5 + a.z; s3 = s3 * 0.5 + a.w; s4 = s4 * 0.5 + a.x;
    s5 = s5 * 0.5 + a.y; s6 = s6 * 0.5 + a.z; s7 = s7 * 0.5 + a.w; s8 = s8 * 0.5 + a.x; s9 = s9 * 0.5 + a.y;
    s0 = s0 * 0.5 + a.x; s1 = s1 * 0.5 + a.y; s2 = s2 * 0.5 + a.z; s3 = s3 * 0.5 + a.w; s4 = s4 * 0.5 + a.x;
    s5 = s5 * 0.5 + a.y; s6 = s6 * 0.5 + a.z; s7 = s7 * 0.5 + a.w; s8 = s8 * 0.5 + a.x; s9 = s9 * 0.5 + a.y;
    s0 = s0 * 0.5 + a.x; s1 = s1 * 0.5 + a.y; s2 = s2 * 0.5 + a.z; s3 = s3 * 0.5 + a.w; s4 = s4 * 0.5 + a.x;
    s5 = s5 * 0.5 + a.y; s6 = s6 * 0.5 + a.z; s7 = s7 * 0.5 + a.w; s8 = s8 * 0.5 + a.x; s9 = s9 * 0.5 + a.y;
  }
  if (place < params.n) { out[params.out_at + batch * params.n + place] = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)) + (s8 + s9); }
}
