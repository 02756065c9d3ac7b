// out[a, d, i] = x[place / m, a, d, place % m] for place = place[i] below s m, else base[a, d, i]; one thread per number.
@group(0) @binding(1) var<storage, read> x: array<f32>; // [s, a, d, m, c]
@group(0) @binding(2) var<storage, read> place: array<u32>; // [n]
@group(0) @binding(3) var<storage, read> base: array<f32>; // [a, d, n, c]
@group(0) @binding(4) var<storage, read_write> out: array<f32>; // [a, d, n, c]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let at = group * 64u + thread;
  let heads = params.a * params.d;
  if (at >= heads * params.n * params.c) { return; }
  let line = at / params.c;
  let head = line / params.n;
  let found = place[params.place_at + line % params.n];
  let there = found < params.s * params.m;
  let safe = select(0u, found, there);
  var value = x[params.x_at + ((safe / params.m * heads + head) * params.m + safe % params.m) * params.c + at % params.c];
  if (HAS_BASE) { value = select(base[params.base_at + at], value, there); }
  out[params.out_at + at] = select(select(0.0, value, HAS_BASE), value, there);
}
