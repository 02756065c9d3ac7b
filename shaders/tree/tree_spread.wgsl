// Both sweeps within pieces of a forest. A thread takes LANES channels of one piece: from the last member to the first it hands
// sums up, the result's memory holding what has come together at a member, and then from the first to the last it hands down.
@group(0) @binding(1) var<storage, read> pieces: array<u32>; // [g, 4]
@group(0) @binding(2) var<storage, read> turns: array<u32>; // [r]
@group(0) @binding(3) var<storage, read> links: array<u32>; // [n, 2]
@group(0) @binding(4) var<storage, read> factors: array<f32>; // [n, 2]
@group(0) @binding(5) var<storage, read> x: array<Value>; // [b, h, n, w]
@group(0) @binding(6) var<storage, read> above: array<Value>; // [b, h, m, e]
@group(0) @binding(7) var<storage, read> prev: array<Value>; // [b, h, n, w]
@group(0) @binding(8) var<storage, read_write> out: array<Value>; // [b, h, n, w]

const BACK = 65535u;
const PARTIAL = 65536u;
const FIRST = 131072u;
const BOTTOM = 262144u;
const HELD = 524288u;

fn finished(sum: Value, at: u32) -> Value {
  var value = params.weight * sum;
  if (HAS_PREV) { value += prev[params.prev_at / LANES + at]; }
  return value;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let width = params.w / LANES;
  let channels = width / (1u + PAIRED);
  // The dispatch counts the words of a row, which pairs have twice.
  let groups_per_batch = (params.g * width + 63u) / 64u;
  let batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= params.g * channels) { return; }
  let piece = item / channels;
  let channel = item % channels;
  let source = params.x_at / LANES + batch * params.n * width + channel;
  let place = params.out_at / LANES + batch * params.n * width + channel;
  // Sums stand in the second half of a row of pairs.
  let sums = place + PAIRED * channels;
  let members = members_of(piece);
  var given = Value(); // G at the point that the piece hangs from
  var hung = Value(); // S of what hangs from its bottom
  if (HAS_ABOVE) {
    let rows = params.above_at / LANES + batch * params.m * 2u * channels + channel;
    let row = pieces[params.pieces_at + 4u * piece + 2u];
    let parent = pieces[params.pieces_at + 4u * piece + 3u];
    if (parent < params.m) { given = above[rows + parent * 2u * channels]; }
    if (row < params.m) { hung = above[rows + row * 2u * channels + channels]; }
  }
  var carry = Value();
  for (var left = members.y; left > 0u; left--) {
    let member = left - 1u;
    let s = spot_of(members, member);
    let row = row_of(s) * width;
    let link = links[params.links_at + 2u * s + 1u];
    let back = min(link & BACK, member);
    var sum = carry;
    if ((link & PARTIAL) != 0u) { sum += out[sums + row]; }
    if ((link & BOTTOM) != 0u) { sum += hung; }
    let own = x[source + row];
    let q = factors[params.factors_at + 2u * s];
    // A single node sends q (x + sum), a piece what it has collected and q times what came to its bottom.
    if (PAIRED == 0u) { sum += own; }
    // Where nothing hangs from a node its sum is x, which need not be stored.
    if (PAIRED > 0u || (link & HELD) != 0u) { out[sums + row] = sum; }
    var sent = q * sum;
    if (PAIRED > 0u) { sent += own; }
    carry = Value();
    if (back == 1u) { carry = sent; }
    if (back > 1u) {
      let parent = sums + row_of(spot_of(members, member - back)) * width;
      if ((link & FIRST) == 0u) { sent += out[parent]; }
      out[parent] = sent;
    }
  }
  var last = Value();
  for (var member = 0u; member < members.y; member++) {
    let s = spot_of(members, member);
    let row = row_of(s) * width;
    let link = links[params.links_at + 2u * s + 1u];
    let back = min(link & BACK, member);
    var parent = given;
    if (back == 1u) { parent = last; }
    if (back > 1u) { parent = out[place + row_of(spot_of(members, member - back)) * width]; }
    var sum = Value();
    if (PAIRED > 0u || (link & HELD) != 0u) { sum = out[sums + row]; } else { sum = x[source + row]; }
    var value = factors[params.factors_at + 2u * s] * parent + factors[params.factors_at + 2u * s + 1u] * sum;
    if (PAIRED > 0u) { value += x[source + row + channels]; }
    last = value;
    if (SUMMED > 0u && (link & PARTIAL) == 0u) { value = finished(value, batch * params.n * width + channel + row); }
    out[place + row] = value;
  }
  // What others than the next member read is weighed when all have read it.
  if (SUMMED > 0u) {
    for (var member = 0u; member < members.y; member++) {
      let s = spot_of(members, member);
      if ((links[params.links_at + 2u * s + 1u] & PARTIAL) != 0u) {
        let row = row_of(s) * width;
        out[place + row] = finished(out[place + row], batch * params.n * width + channel + row);
      }
    }
  }
}
