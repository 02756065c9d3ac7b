// Lines of keys and values from textures, of which each of eight lanes loads a texel or two; subgroup broadcasts bring the others, and on
// llvmpipe they cost next to nothing beside a texel.
fn spread(low: vec4f, high: vec4f, texels: u32) -> Line {
  var x = Line();
  if (texels > 0u) { x.v0 = subgroupBroadcast(low, 0u); }
  if (texels > 1u) { x.v1 = subgroupBroadcast(low, 1u); }
  if (texels > 2u) { x.v2 = subgroupBroadcast(low, 2u); }
  if (texels > 3u) { x.v3 = subgroupBroadcast(low, 3u); }
  if (texels > 4u) { x.v4 = subgroupBroadcast(low, 4u); }
  if (texels > 5u) { x.v5 = subgroupBroadcast(low, 5u); }
  if (texels > 6u) { x.v6 = subgroupBroadcast(low, 6u); }
  if (texels > 7u) { x.v7 = subgroupBroadcast(low, 7u); }
  if (texels > 8u) { x.v8 = subgroupBroadcast(high, 0u); }
  if (texels > 9u) { x.v9 = subgroupBroadcast(high, 1u); }
  if (texels > 10u) { x.v10 = subgroupBroadcast(high, 2u); }
  if (texels > 11u) { x.v11 = subgroupBroadcast(high, 3u); }
  if (texels > 12u) { x.v12 = subgroupBroadcast(high, 4u); }
  if (texels > 13u) { x.v13 = subgroupBroadcast(high, 5u); }
  if (texels > 14u) { x.v14 = subgroupBroadcast(high, 6u); }
  if (texels > 15u) { x.v15 = subgroupBroadcast(high, 7u); }
  return x;
}

fn line_of_key(at: u32, lane: u32) -> Line {
  let low = texel_k(at + min(lane, HELD - 1u));
  var high = vec4f(); if (HELD > 8u) { high = texel_k(at + min(8u + lane, HELD - 1u)); }
  return spread(low, high, HELD);
}

fn line_of_value(line: u32, first: u32, last: u32, lane: u32) -> Line {
  let low = texel_v(line + min(first + lane, last));
  var high = vec4f(); if (WIDTH > 8u) { high = texel_v(line + min(first + 8u + lane, last)); }
  return spread(low, high, WIDTH);
}

@compute @workgroup_size(8)
fn main(
  @builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32,
  @builtin(subgroup_invocation_id) lane: u32,
) {
  attend(id, count, thread, lane);
}
