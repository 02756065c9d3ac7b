// The first word of each head, from a texture that the whole head was copied into. x [b, h, m], out [b, h].
@group(0) @binding(1) var x: texture_2d<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups || thread > 0u) { return; }
  let word = params.x_at + group * params.m;
  out[params.out_at + group] = textureLoad(x, texel_place(word >> 2u), 0)[word & 3u];
}
