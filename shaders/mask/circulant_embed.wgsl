// out[g, c] = table entry whose offset is c modulo the lengths, with imaginary part 0; 0 where no offset is. One thread
// per complex number.
@group(0) @binding(1) var<storage, read> table: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

// Index along one axis of the entry at place `c`: of `side` tokens, transforms of length `len`; 0xffffffff where there is none.
fn entry(c: u32, side: u32, len: u32) -> u32 {
  var offset = i32(c);
  if (c >= side) { offset -= i32(len); }
  if (TORUS == 1u && len == side) { offset = i32(c); }
  if (offset <= -i32(side)) { return 0xffffffffu; }
  if (TRANSPOSE == 1u) { offset = -offset; }
  if (TORUS == 1u) { return u32(select(offset, offset + i32(side), offset < 0)); }
  return u32(offset + i32(side) - 1);
}

fn entries(side: u32) -> u32 { return select(2u * side - 1u, side, TORUS == 1u); }

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let at = group * 64u + thread;
  if (at >= params.g * params.f) { return; }
  let head = at / params.f;
  let place = at % params.f;
  let a = entry(place / (L3 * L2), N1, L1);
  let b = entry(place / L3 % L2, N2, L2);
  let c = entry(place % L3, N3, L3);
  var value = 0.0;
  if (a != 0xffffffffu && b != 0xffffffffu && c != 0xffffffffu) {
    value = table[params.table_at + head * params.t + (a * entries(N2) + b) * entries(N3) + c];
  }
  out[params.out_at + 2u * at] = value;
  out[params.out_at + 2u * at + 1u] = 0.0;
}
