// Noise under a short filter: every position of a box sums its window of the noise around it. A thread makes LANES lanes of up to ROWS
// positions along the last axis, which share what they read.
@group(0) @binding(1) var<storage, read> z: array<Value>; // [b, h, u0, u1, u2, r]
@group(0) @binding(2) var<storage, read> taps: array<f32>; // [b, h, t0, t1, t2]
@group(0) @binding(3) var<storage, read_write> out: array<Value>; // [b, h, n0, n1, n2, r]

const ROWS = 4u;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let lanes = params.r / LANES;
  let strips = (params.n2 + ROWS - 1u) / ROWS;
  let size = params.n0 * params.n1 * strips * lanes;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let batch = params.batch_from + local_batch;
  let weights = params.taps_at + batch / params.h * params.taps_b + batch % params.h * params.taps_h;
  let lane = item % lanes;
  let i2 = item / lanes % strips * ROWS;
  let line = item / lanes / strips;
  let i1 = line % params.n1;
  let i0 = line / params.n1;
  let rows = min(ROWS, params.n2 - i2);
  // Strips past the line's end read its last place, for results that are not stored.
  let last = params.u2 - 1u;
  let source = params.z_at / LANES + local_batch * params.u0 * params.u1 * params.u2 * lanes + lane;
  var a = Value(); var b = Value(); var c = Value(); var d = Value();
  for (var p0 = 0u; p0 < params.t0; p0++) {
    for (var p1 = 0u; p1 < params.t1; p1++) {
      let from_line = ((i0 + p0) * params.u1 + i1 + p1) * params.u2;
      let own = weights + (p0 * params.t1 + p1) * params.t2;
      // Four neighbours slide over the line together.
      var z1 = z[source + (from_line + min(i2, last)) * lanes];
      var z2 = z[source + (from_line + min(i2 + 1u, last)) * lanes];
      var z3 = z[source + (from_line + min(i2 + 2u, last)) * lanes];
      for (var p2 = 0u; p2 < params.t2; p2++) {
        let z0 = z1;
        z1 = z2;
        z2 = z3;
        z3 = z[source + (from_line + min(i2 + p2 + 3u, last)) * lanes];
        let w = taps[own + p2];
        a += w * z0;
        b += w * z1;
        c += w * z2;
        d += w * z3;
      }
    }
  }
  let place = params.out_at / LANES + (local_batch * params.n0 * params.n1 * params.n2 + line * params.n2 + i2) * lanes + lane;
  out[place] = a;
  if (rows > 1u) { out[place + lanes] = b; }
  if (rows > 2u) { out[place + 2u * lanes] = c; }
  if (rows > 3u) { out[place + 3u * lanes] = d; }
}
