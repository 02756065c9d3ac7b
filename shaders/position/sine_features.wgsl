// Waves of every position and dimension, times a token's own number: what random projections of sinusoidal position codes act on.
// A thread makes all waves of one dimension for up to four tokens, which share the frequencies.
@group(0) @binding(1) var<storage, read> x: array<f32>; // [b, h, n, d]
@group(0) @binding(2) var<storage, read> places: array<u32>; // [n, a]
@group(0) @binding(3) var<storage, read> frequency: array<u32>; // [b, h, d, f], k · a of them
@group(0) @binding(4) var<storage, read> phase: array<u32>; // [b, h, d, k]
@group(0) @binding(5) var<storage, read> gain: array<f32>; // [b, h, d, k]
@group(0) @binding(6) var<storage, read> constant: array<f32>; // [b, h, d]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [b, h, n, m], d times 2 k or 2 k + 1

fn places_of(rows: vec4u, axis: u32) -> vec4u {
  let at = vec4u(params.places_at + axis) + rows * params.a;
  return vec4u(places[at.x], places[at.y], places[at.z], places[at.w]);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = (params.n + 3u) / 4u * params.d;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let d = item % params.d;
  let first = item / params.d * 4u;
  let tokens = min(4u, params.n - first);
  // Tokens past the last repeat it; what they make is not stored.
  let rows = min(vec4u(first) + vec4u(0u, 1u, 2u, 3u), vec4u(params.n - 1u));
  let at_0 = places_of(rows, 0u);
  var at_1 = vec4u();
  var at_2 = vec4u();
  if (params.a > 1u) { at_1 = places_of(rows, 1u); }
  if (params.a > 2u) { at_2 = places_of(rows, 2u); }
  var token = vec4f(1.0);
  if (HAS_X) {
    let at = vec4u(params.x_at + d) + (vec4u(local_batch * params.n) + rows) * params.d;
    token = vec4f(x[at.x], x[at.y], x[at.z], x[at.w]);
  }
  var width = 2u * params.k;
  if (HAS_CONSTANT) { width += 1u; }
  let place = vec4u(params.out_at + d * width) + (vec4u(local_batch * params.n) + rows) * params.m;
  let own_frequency = params.frequency_at + b * params.frequency_b + h * params.frequency_h + d * params.k * params.a;
  let own_phase = params.phase_at + b * params.phase_b + h * params.phase_h + d * params.k;
  let own_gain = params.gain_at + b * params.gain_b + h * params.gain_h + d * params.k;
  for (var k = 0u; k < params.k; k++) {
    var turn = frequency[own_frequency + k * params.a] * at_0;
    if (params.a > 1u) { turn += frequency[own_frequency + k * params.a + 1u] * at_1; }
    if (params.a > 2u) { turn += frequency[own_frequency + k * params.a + 2u] * at_2; }
    if (HAS_PHASE) { turn += vec4u(phase[own_phase + k]); }
    let wave = waves(turn);
    let factor = gain[own_gain + k] * token;
    let cosine = factor * wave.cosine;
    let sine = factor * wave.sine;
    let to = place + vec4u(2u * k);
    out[to.x] = cosine.x;
    out[to.x + 1u] = sine.x;
    if (tokens > 1u) { out[to.y] = cosine.y; out[to.y + 1u] = sine.y; }
    if (tokens > 2u) { out[to.z] = cosine.z; out[to.z + 1u] = sine.z; }
    if (tokens > 3u) { out[to.w] = cosine.w; out[to.w + 1u] = sine.w; }
  }
  if (HAS_CONSTANT) {
    let added = constant[params.constant_at + b * params.constant_b + h * params.constant_h + d] * token;
    let to = place + vec4u(2u * params.k);
    out[to.x] = added.x;
    if (tokens > 1u) { out[to.y] = added.y; }
    if (tokens > 2u) { out[to.z] = added.z; }
    if (tokens > 3u) { out[to.w] = added.w; }
  }
}
