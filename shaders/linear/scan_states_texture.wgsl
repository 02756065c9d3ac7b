// One thread per texel of four numbers of a state walks the chunks; see scan_states_plain.wgsl.
@group(0) @binding(1) var states: texture_2d<f32>;
@group(0) @binding(2) var<storage, read> powers: array<f32>;
@group(0) @binding(3) var<storage, read> reach: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<storage, read_write> last: array<f32>;

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let texels = params.s / 4u;
  let blocks = (texels + 7u) / 8u;
  let local_batch = group / blocks;
  let item = group % blocks * 8u + thread;
  if (item >= texels) { return; }
  let batch = params.batch_from + local_batch;
  let backward = TWO_SIDED == 1u && item >= texels / 2u;
  let from_texel = params.states_at / 4u + local_batch * params.c * texels + item;
  let to = params.out_at + local_batch * params.c * params.s + 4u * item;
  var run = vec4f();
  for (var step = 0u; step < params.c; step++) {
    let chunk = select(step, params.c - 1u - step, backward);
    let at = to + chunk * params.s;
    out[at] = run.x;
    out[at + 1u] = run.y;
    out[at + 2u] = run.z;
    out[at + 3u] = run.w;
    let factor = carry(batch, chunk, backward);
    run = select(vec4f(), factor * run, factor != 0.0) + textureLoad(states, texel_place(from_texel + chunk * texels), 0);
  }
  if (HAS_LAST) {
    let at = params.last_at + local_batch * params.s + 4u * item;
    last[at] = run.x;
    last[at + 1u] = run.y;
    last[at + 2u] = run.z;
    last[at + 3u] = run.w;
  }
}
