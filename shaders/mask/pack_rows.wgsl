// out[s, a, d, m] = x[a, d, index[s, m]], 0 where that is no row or one that is left out; one thread per number.
@group(0) @binding(1) var<storage, read> x: array<f32>; // [a, d, n, c]
@group(0) @binding(2) var<storage, read> index: array<u32>; // [s, m]
@group(0) @binding(3) var<storage, read> keep: array<u32>; // bytes [a or 1, d or 1, n]
@group(0) @binding(4) var<storage, read_write> out: array<f32>; // [s, a, d, m, c]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let at = group * 64u + thread;
  if (at >= params.s * params.a * params.d * params.m * params.c) { return; }
  let place = at / params.c;
  let head = place / params.m;
  let heads = params.a * params.d;
  let sequence = head / heads;
  let source = head % heads;
  let row = index[params.index_at + sequence * params.m + place % params.m];
  let safe = min(row, params.n - 1u);
  var kept = row < params.n;
  if (HAS_KEEP) {
    let line = min(source / params.d, params.ka - 1u) * params.kd + min(source % params.d, params.kd - 1u);
    let byte = params.keep_at + line * params.n + safe;
    kept = kept && byte_of(keep[byte >> 2u], byte) != 0u;
  }
  let value = x[params.x_at + (source * params.n + safe) * params.c + at % params.c];
  out[params.out_at + at] = select(0.0, value, kept);
}
