// What pieces of a forest send up by themselves and add at their bottoms: two weighted sums over their members. A thread takes
// LANES channels of one piece.
@group(0) @binding(1) var<storage, read> pieces: array<u32>; // [g, 4]
@group(0) @binding(2) var<storage, read> turns: array<u32>; // [r]
@group(0) @binding(3) var<storage, read> links: array<u32>; // [n, 2]
@group(0) @binding(4) var<storage, read> weights: array<f32>; // [k, t]
@group(0) @binding(5) var<storage, read> x: array<Value>; // [b, h, n, w]
@group(0) @binding(6) var<storage, read_write> sums: array<Value>; // [b, h, m, e]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let channels = params.e / (2u * LANES);
  let groups_per_batch = (params.m * channels + 63u) / 64u;
  let batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= params.m * channels) { return; }
  let piece = item / channels;
  let channel = item % channels;
  let width = params.w / LANES;
  let source = params.x_at / LANES + batch * params.n * width + channel;
  let members = members_of(piece);
  var up = Value();
  var at_bottom = Value();
  for (var member = 0u; member < members.y; member++) {
    let s = spot_of(members, member);
    if (s >= params.k) { break; }
    let row = row_of(s);
    let value = x[source + row * width];
    let weight = params.weights_at + s * params.t;
    up += weights[weight] * value;
    at_bottom += weights[weight + 1u] * value;
    if (PAIRED > 0u) { at_bottom += weights[weight + 2u] * x[source + row * width + channels]; }
  }
  let row = pieces[params.pieces_at + 4u * piece + 2u];
  if (row >= params.m) { return; }
  let place = params.sums_at / LANES + (batch * params.m + row) * 2u * channels + channel;
  sums[place] = up;
  sums[place + channels] = at_bottom;
}
