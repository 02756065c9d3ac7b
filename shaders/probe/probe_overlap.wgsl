// Twelve chains of multiply-adds as in probe_fma, whose addends are two texels a round: six steps for each texel. x [b, h, m], out [b, h, n].
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
  let f = vec4f(0.5);
  var s = vec4f(0.0);
  var t = vec4f(1.0);
  var u = vec4f(2.0);
  for (var round = 0u; round < ROUNDS; round++) {
    let a = texel(batch, place + 2u * round);
    let b = texel(batch, place + 2u * round + 1u);
    s = s * f + a; t = t * f + a; u = u * f + a;
    s = s * f + b; t = t * f + b; u = u * f + b;
    s = s * f + a; t = t * f + a; u = u * f + a;
    s = s * f + b; t = t * f + b; u = u * f + b;
    s = s * f + a; t = t * f + a; u = u * f + a;
    s = s * f + b; t = t * f + b; u = u * f + b;
  }
  let sums = s + t + u;
  if (place < params.n) { out[params.out_at + batch * params.n + place] = (sums.x + sums.y) + (sums.z + sums.w); }
}
