// The number of this workgroup when a long line of groups was folded into three dimensions.
fn linear_group(id: vec3u, count: vec3u) -> u32 {
  return id.x + count.x * (id.y + count.y * id.z);
}
