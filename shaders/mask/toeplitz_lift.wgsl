// out[row, channel] = k[row, l] * [v, 1][row, c], in blocks of `y` channels that each hold all rows: for each of `features`
// features from `first` on the channels of v, rounded up to whole vec4f, then the features themselves. One thread per vec4f.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let quads = params.y >> 2u;
  let per_head = params.u * params.n * quads;
  let groups_per_head = (per_head + 63u) >> 6u;
  let head = divide(group, groups_per_head);
  let item = ((group - head * groups_per_head) << 6u) + thread;
  if (item >= per_head) { return; }
  let line = divide(item, quads);
  let block = divide(line, params.n);
  let row = line - block * params.n;
  let channel = block * params.y + ((item - line * quads) << 2u);
  let value_channels = (params.e + 3u) & ~3u;
  let ones = params.features * value_channels;
  let l = divide(channel, value_channels);
  let feature = params.first + select(l, channel - ones, channel >= ones);
  let k4 = keys(head * params.n + row, feature);
  let v4 = values(head * params.n + row, select(channel - l * value_channels, 0u, channel >= ones));
  let one_key = select(select(k4.x, k4.y, (feature & 3u) == 1u), select(k4.z, k4.w, (feature & 3u) == 3u), (feature & 2u) != 0u);
  let left = params.features - min(params.features, channel - min(channel, ones));
  // Slices begin at even features.
  let four = select(k4, vec4f(k4.zw, 0.0, 0.0), (feature & 2u) != 0u);
  let beyond = select(vec4f(), four, vec4u(0u, 1u, 2u, 3u) < vec4u(left));
  var z = select(one_key * v4, beyond, channel >= ones);
  if (HAS_KEY_MASK) {
    let batch = params.batch_from + head;
    let at = params.key_mask_at + batch / params.h * params.key_mask_b + batch % params.h * params.key_mask_h + row;
    z = select(z, vec4f(), byte_of(key_mask[at >> 2u], at) == 0u);
  }
  out[(params.out_at >> 2u) + head * per_head + item] = z;
}
