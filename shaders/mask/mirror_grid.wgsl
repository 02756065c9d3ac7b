// y[at] = x[mirrored at]: a grid doubled by mirror images along its axes (`crop` 0), or its first half along every axis (`crop` 1).
// One thread per number, or per vector of four channels.
// A place of a doubled axis of a side, seen in the mirror.
fn folded(at: u32, side: u32) -> u32 { return select(at, 2u * side - 1u - at, at >= side); }

// An axis of one token has no mirror image.
fn doubled(side: u32) -> u32 { return select(2u * side, 1u, side == 1u); }

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let width = params.c / WORDS;
  let size = params.m * width;
  let groups_per_batch = (size + 63u) / 64u;
  let batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let token = item / width;
  var to = vec2u(N2, N3);
  if (CROP == 0u) { to = vec2u(doubled(N2), doubled(N3)); }
  let place = vec3u(token / (to.x * to.y), token / to.y % to.x, token % to.y);
  var source = 0u;
  if (CROP == 0u) {
    source = (folded(place.x, N1) * N2 + folded(place.y, N2)) * N3 + folded(place.z, N3);
  } else {
    source = (place.x * doubled(N2) + place.y) * doubled(N3) + place.z;
  }
  y[params.y_at / WORDS + batch * size + item] = x[params.x_at / WORDS + (batch * params.n + source) * width + item % width];
}
