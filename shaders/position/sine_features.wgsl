// Waves of every position and dimension, times a token's own number: what random projections of sinusoidal position codes act on.
// A thread makes one pair of waves of one dimension, or its last, constant, number.
@group(0) @binding(1) var<storage, read> x: array<f32>; // [b, h, n, d]
@group(0) @binding(2) var<storage, read> places: array<u32>; // [n, a]
@group(0) @binding(3) var<storage, read> frequency: array<u32>; // [b, h, d, f], k · a of them
@group(0) @binding(4) var<storage, read> phase: array<u32>; // [b, h, d, k]
@group(0) @binding(5) var<storage, read> gain: array<f32>; // [b, h, d, k]
@group(0) @binding(6) var<storage, read> constant: array<f32>; // [b, h, d]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [b, h, n, m], d times 2 k or 2 k + 1

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  var items = params.k;
  if (HAS_CONSTANT) { items += 1u; }
  let size = params.n * params.d * items;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let wave = item % items;
  let d = item / items % params.d;
  let n = item / (items * params.d);
  var width = 2u * params.k;
  if (HAS_CONSTANT) { width += 1u; }
  let place = params.out_at + local_batch * params.n * params.m + item / items * width + 2u * wave;
  var token = 1.0;
  if (HAS_X) { token = x[params.x_at + (local_batch * params.n + n) * params.d + d]; }
  if (wave == params.k) {
    if (HAS_CONSTANT) { out[place] = token * constant[params.constant_at + b * params.constant_b + h * params.constant_h + d]; }
  } else {
    let at = d * params.k + wave;
    var turn = 0u;
    if (HAS_PHASE) { turn = phase[params.phase_at + b * params.phase_b + h * params.phase_h + at]; }
    let own = params.frequency_at + b * params.frequency_b + h * params.frequency_h + at * params.a;
    for (var axis = 0u; axis < params.a; axis++) {
      turn += frequency[own + axis] * places[params.places_at + n * params.a + axis];
    }
    let pair = token * gain[params.gain_at + b * params.gain_b + h * params.gain_h + at] * waves(turn);
    out[place] = pair.x;
    out[place + 1u] = pair.y;
  }
}
