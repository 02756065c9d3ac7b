// Lines of keys and values from textures, each texel loaded by all threads: on llvmpipe that costs a tenth of four storage words.
fn line_of_key(at: u32, lane: u32) -> Line {
  var x = Line();
  if (HELD > 0u) { x.v0 = texel_k(at + 0u); }
  if (HELD > 1u) { x.v1 = texel_k(at + 1u); }
  if (HELD > 2u) { x.v2 = texel_k(at + 2u); }
  if (HELD > 3u) { x.v3 = texel_k(at + 3u); }
  if (HELD > 4u) { x.v4 = texel_k(at + 4u); }
  if (HELD > 5u) { x.v5 = texel_k(at + 5u); }
  if (HELD > 6u) { x.v6 = texel_k(at + 6u); }
  if (HELD > 7u) { x.v7 = texel_k(at + 7u); }
  if (HELD > 8u) { x.v8 = texel_k(at + 8u); }
  if (HELD > 9u) { x.v9 = texel_k(at + 9u); }
  if (HELD > 10u) { x.v10 = texel_k(at + 10u); }
  if (HELD > 11u) { x.v11 = texel_k(at + 11u); }
  if (HELD > 12u) { x.v12 = texel_k(at + 12u); }
  if (HELD > 13u) { x.v13 = texel_k(at + 13u); }
  if (HELD > 14u) { x.v14 = texel_k(at + 14u); }
  if (HELD > 15u) { x.v15 = texel_k(at + 15u); }
  return x;
}

fn line_of_value(line: u32, first: u32, last: u32, lane: u32) -> Line {
  var x = Line();
  if (WIDTH > 0u) { x.v0 = texel_v(line + min(first + 0u, last)); }
  if (WIDTH > 1u) { x.v1 = texel_v(line + min(first + 1u, last)); }
  if (WIDTH > 2u) { x.v2 = texel_v(line + min(first + 2u, last)); }
  if (WIDTH > 3u) { x.v3 = texel_v(line + min(first + 3u, last)); }
  if (WIDTH > 4u) { x.v4 = texel_v(line + min(first + 4u, last)); }
  if (WIDTH > 5u) { x.v5 = texel_v(line + min(first + 5u, last)); }
  if (WIDTH > 6u) { x.v6 = texel_v(line + min(first + 6u, last)); }
  if (WIDTH > 7u) { x.v7 = texel_v(line + min(first + 7u, last)); }
  if (WIDTH > 8u) { x.v8 = texel_v(line + min(first + 8u, last)); }
  if (WIDTH > 9u) { x.v9 = texel_v(line + min(first + 9u, last)); }
  if (WIDTH > 10u) { x.v10 = texel_v(line + min(first + 10u, last)); }
  if (WIDTH > 11u) { x.v11 = texel_v(line + min(first + 11u, last)); }
  if (WIDTH > 12u) { x.v12 = texel_v(line + min(first + 12u, last)); }
  if (WIDTH > 13u) { x.v13 = texel_v(line + min(first + 13u, last)); }
  if (WIDTH > 14u) { x.v14 = texel_v(line + min(first + 14u, last)); }
  if (WIDTH > 15u) { x.v15 = texel_v(line + min(first + 15u, last)); }
  return x;
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  attend(id, count, thread, 0u);
}
