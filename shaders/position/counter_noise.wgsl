// Random numbers by place: four lanes of one channel and position from one counter.
@group(0) @binding(1) var<storage, read> table: array<u32>; // [512] beginnings, then slopes
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // [c, u, r]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let quads = (params.r + 3u) / 4u;
  let item = group * 64u + thread;
  if (item >= params.c * params.u * quads) { return; }
  let quad = item % quads;
  let row = item / quads;
  let place = row % params.u;
  let i2 = params.first_2 + place % params.side_2;
  let i1 = params.first_1 + place / params.side_2 % params.side_1;
  let i0 = params.first_0 + place / (params.side_2 * params.side_1);
  let index = (i0 << params.shift_0) | (i1 << params.shift_1) | i2;
  var purpose = params.purpose;
  if (params.last_purpose > 0u && place + 1u == params.u) { purpose = params.last_purpose; }
  let counter = vec4u(index, (params.channel + row / params.u) | (quad << 20u), params.step, purpose);
  let four = numbers(philox(counter, vec2u(params.seed_low, params.seed_high)));
  for (var lane = 0u; lane < min(4u, params.r - 4u * quad); lane++) {
    out[params.out_at + row * params.r + 4u * quad + lane] = four[lane];
  }
}
