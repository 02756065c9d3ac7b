// Two rows per thread in registers, landmarks from a uniform buffer, rows from a texture: on llvmpipe a uniform load is
// five times cheaper than a storage load, a texel ten times cheaper than four storage words, and two rows share each
// landmark. Heads of up to 64 coordinates (D4 vec4s); the registers are written out because a dynamically indexed array
// would live in memory.
@group(0) @binding(1) var x: texture_2d<f32>;
@group(0) @binding(2) var<uniform> y: array<vec4f, 4096>;
@group(0) @binding(3) var<storage, read> lambda: array<f32>;
@group(0) @binding(4) var<storage, read> x_keep: array<u32>;
@group(0) @binding(5) var<storage, read> y_keep: array<u32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;

fn texel(at: u32) -> vec4f { return textureLoad(x, texel_place(at), 0); }

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let rows = params.n;
  let columns = params.m;
  let groups_per_batch = (rows + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let row0 = group % groups_per_batch * 64u + thread;
  let row1 = row0 + 32u;
  if (row0 >= rows) { return; }
  let has_row1 = row1 < rows;
  let batch = params.batch_from + local_batch;
  let bandwidth = bandwidth_of(batch % params.h);
  let p = params.x_at / 4u + (local_batch * rows + row0) * D4;
  let q = params.x_at / 4u + (local_batch * rows + min(row1, rows - 1u)) * D4;
  let p0 = texel(p); let q0 = texel(q);
  var p1 = vec4f(); var q1 = vec4f(); if (D4 > 1u) { p1 = texel(p + 1u); q1 = texel(q + 1u); }
  var p2 = vec4f(); var q2 = vec4f(); if (D4 > 2u) { p2 = texel(p + 2u); q2 = texel(q + 2u); }
  var p3 = vec4f(); var q3 = vec4f(); if (D4 > 3u) { p3 = texel(p + 3u); q3 = texel(q + 3u); }
  var p4 = vec4f(); var q4 = vec4f(); if (D4 > 4u) { p4 = texel(p + 4u); q4 = texel(q + 4u); }
  var p5 = vec4f(); var q5 = vec4f(); if (D4 > 5u) { p5 = texel(p + 5u); q5 = texel(q + 5u); }
  var p6 = vec4f(); var q6 = vec4f(); if (D4 > 6u) { p6 = texel(p + 6u); q6 = texel(q + 6u); }
  var p7 = vec4f(); var q7 = vec4f(); if (D4 > 7u) { p7 = texel(p + 7u); q7 = texel(q + 7u); }
  var p8 = vec4f(); var q8 = vec4f(); if (D4 > 8u) { p8 = texel(p + 8u); q8 = texel(q + 8u); }
  var p9 = vec4f(); var q9 = vec4f(); if (D4 > 9u) { p9 = texel(p + 9u); q9 = texel(q + 9u); }
  var p10 = vec4f(); var q10 = vec4f(); if (D4 > 10u) { p10 = texel(p + 10u); q10 = texel(q + 10u); }
  var p11 = vec4f(); var q11 = vec4f(); if (D4 > 11u) { p11 = texel(p + 11u); q11 = texel(q + 11u); }
  var p12 = vec4f(); var q12 = vec4f(); if (D4 > 12u) { p12 = texel(p + 12u); q12 = texel(q + 12u); }
  var p13 = vec4f(); var q13 = vec4f(); if (D4 > 13u) { p13 = texel(p + 13u); q13 = texel(q + 13u); }
  var p14 = vec4f(); var q14 = vec4f(); if (D4 > 14u) { p14 = texel(p + 14u); q14 = texel(q + 14u); }
  var p15 = vec4f(); var q15 = vec4f(); if (D4 > 15u) { p15 = texel(p + 15u); q15 = texel(q + 15u); }
  var from_y = local_batch * columns * D4;
  var at0 = params.out_at + (local_batch * rows + row0) * columns;
  var at1 = at0 + 32u * columns;
  for (var col = 0u; col < columns; col++) {
    let y0 = y[from_y];
    var s = gap4(p0, y0); var t = gap4(q0, y0);
    if (D4 > 1u) { let v = y[from_y + 1u]; s += gap4(p1, v); t += gap4(q1, v); }
    if (D4 > 2u) { let v = y[from_y + 2u]; s += gap4(p2, v); t += gap4(q2, v); }
    if (D4 > 3u) { let v = y[from_y + 3u]; s += gap4(p3, v); t += gap4(q3, v); }
    if (D4 > 4u) { let v = y[from_y + 4u]; s += gap4(p4, v); t += gap4(q4, v); }
    if (D4 > 5u) { let v = y[from_y + 5u]; s += gap4(p5, v); t += gap4(q5, v); }
    if (D4 > 6u) { let v = y[from_y + 6u]; s += gap4(p6, v); t += gap4(q6, v); }
    if (D4 > 7u) { let v = y[from_y + 7u]; s += gap4(p7, v); t += gap4(q7, v); }
    if (D4 > 8u) { let v = y[from_y + 8u]; s += gap4(p8, v); t += gap4(q8, v); }
    if (D4 > 9u) { let v = y[from_y + 9u]; s += gap4(p9, v); t += gap4(q9, v); }
    if (D4 > 10u) { let v = y[from_y + 10u]; s += gap4(p10, v); t += gap4(q10, v); }
    if (D4 > 11u) { let v = y[from_y + 11u]; s += gap4(p11, v); t += gap4(q11, v); }
    if (D4 > 12u) { let v = y[from_y + 12u]; s += gap4(p12, v); t += gap4(q12, v); }
    if (D4 > 13u) { let v = y[from_y + 13u]; s += gap4(p13, v); t += gap4(q13, v); }
    if (D4 > 14u) { let v = y[from_y + 14u]; s += gap4(p14, v); t += gap4(q14, v); }
    if (D4 > 15u) { let v = y[from_y + 15u]; s += gap4(p15, v); t += gap4(q15, v); }
    out[at0] = entry(batch, row0, col, (s.x + s.y) + (s.z + s.w), bandwidth);
    if (has_row1) { out[at1] = entry(batch, row1, col, (t.x + t.y) + (t.z + t.w), bandwidth); }
    from_y += D4;
    at0 += 1u;
    at1 += 1u;
  }
}
