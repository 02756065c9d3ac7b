// The number of this workgroup when a long line of groups was folded into three dimensions; a dispatch may be one part of the line.
fn linear_group(id: vec3u, count: vec3u) -> u32 {
  return params.group_from + (id.x + count.x * (id.y + count.y * id.z));
}
