// A thread walks over the texels from its own number on, and adds up what it reads; `texel` comes from the variant. x [b, h, m],
// out [b, h, n].
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 63u) / 64u;
  let batch = group / groups_per_batch;
  let place = group % groups_per_batch * 64u + thread;
  begin(batch, thread);
  var sum = vec4f();
  for (var round = 0u; round < ROUNDS; round++) {
    let at = place + 8u * round;
    sum += texel(batch, at % TEXELS);
    sum += texel(batch, (at + 1u) % TEXELS);
    sum += texel(batch, (at + 2u) % TEXELS);
    sum += texel(batch, (at + 3u) % TEXELS);
    sum += texel(batch, (at + 4u) % TEXELS);
    sum += texel(batch, (at + 5u) % TEXELS);
    sum += texel(batch, (at + 6u) % TEXELS);
    sum += texel(batch, (at + 7u) % TEXELS);
  }
  if (place < params.n) { out[params.out_at + batch * params.n + place] = (sum.x + sum.y) + (sum.z + sum.w); }
}
