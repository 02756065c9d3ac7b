// out[row, c] = prior[row, c] + sum over features l of q[row, first + l] * x[row, channel of (l, c)], channels laid out as in
// toeplitz_lift.wgsl. One thread per row and four columns; the last thread of a row adds the ones.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let value_quads = (params.w - 1u + 3u) >> 2u;
  let per_row = value_quads + 1u;
  let per_head = params.n * per_row;
  let groups_per_head = (per_head + 63u) >> 6u;
  let head = divide(group, groups_per_head);
  let item = ((group - head * groups_per_head) << 6u) + thread;
  if (item >= per_head) { return; }
  let row = divide(item, per_row);
  let column = (item - row * per_row) << 2u;
  let width = 4u * value_quads;
  let is_ones = column == width;
  let ones = params.features * width;
  var sum = vec4f();
  for (var l = 0u; l < params.features; l += 4u) {
    let q4 = queries(head * params.n + row, params.first + l);
    let from_channel = select(l * width + column, ones + l, is_ones);
    let step = select(width, 0u, is_ones);
    let a = channels(head, row, from_channel);
    let b = channels(head, row, from_channel + step);
    let c = channels(head, row, from_channel + 2u * step);
    let d = channels(head, row, from_channel + 3u * step);
    let left = params.features - l;
    let kept = select(vec4f(), q4, vec4u(0u, 1u, 2u, 3u) < vec4u(left));
    let weighted = kept.x * a + kept.y * b + kept.z * c + kept.w * d;
    sum += select(weighted, vec4f(dot(kept, a), 0.0, 0.0, 0.0), is_ones);
  }
  let values = params.w - 1u;
  let from_row = (head * params.n + row) * params.w;
  if (is_ones) {
    add(from_row + values, sum.x);
  } else {
    add(from_row + column, sum.x);
    if (column + 1u < values) { add(from_row + column + 1u, sum.y); }
    if (column + 2u < values) { add(from_row + column + 2u, sum.z); }
    if (column + 3u < values) { add(from_row + column + 3u, sum.w); }
  }
}

fn add(at: u32, value: f32) {
  var sum = value;
  if (HAS_PRIOR) { sum += prior[params.prior_at + at]; }
  out[params.out_at + at] = sum;
}

// Word of a channel, in blocks of `y` that each hold all rows; what lies beyond the last channel is multiplied by 0.
fn channel_word(head: u32, row: u32, channel: u32) -> u32 {
  let block = min(divide(channel, params.y), params.u - 1u);
  return params.x_at + ((head * params.u + block) * params.n + row) * params.y + min(channel - block * params.y, params.y - 4u);
}
