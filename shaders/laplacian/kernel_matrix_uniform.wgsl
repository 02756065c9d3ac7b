// One row per thread in registers, landmarks from a uniform buffer: on llvmpipe a uniform load is five times cheaper than
// a storage load, and on GPUs it is the constant cache's broadcast. Heads of up to 64 coordinates (D4 vec4s); the
// registers are written out because a dynamically indexed array would live in memory.
@group(0) @binding(1) var<storage, read> x: array<vec4f>;
@group(0) @binding(2) var<uniform> y: array<vec4f, 4096>;
@group(0) @binding(3) var<storage, read> lambda: array<f32>;
@group(0) @binding(4) var<storage, read> x_keep: array<u32>;
@group(0) @binding(5) var<storage, read> y_keep: array<u32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let row = group % groups_per_batch * 64u + thread;
  if (row >= params.n) { return; }
  let batch = params.batch_from + local_batch;
  let x_start = params.x_at / 4u + (local_batch * params.n + row) * D4;
  let x0 = x[x_start];
  var x1 = vec4f(); if (D4 > 1u) { x1 = x[x_start + 1u]; }
  var x2 = vec4f(); if (D4 > 2u) { x2 = x[x_start + 2u]; }
  var x3 = vec4f(); if (D4 > 3u) { x3 = x[x_start + 3u]; }
  var x4 = vec4f(); if (D4 > 4u) { x4 = x[x_start + 4u]; }
  var x5 = vec4f(); if (D4 > 5u) { x5 = x[x_start + 5u]; }
  var x6 = vec4f(); if (D4 > 6u) { x6 = x[x_start + 6u]; }
  var x7 = vec4f(); if (D4 > 7u) { x7 = x[x_start + 7u]; }
  var x8 = vec4f(); if (D4 > 8u) { x8 = x[x_start + 8u]; }
  var x9 = vec4f(); if (D4 > 9u) { x9 = x[x_start + 9u]; }
  var x10 = vec4f(); if (D4 > 10u) { x10 = x[x_start + 10u]; }
  var x11 = vec4f(); if (D4 > 11u) { x11 = x[x_start + 11u]; }
  var x12 = vec4f(); if (D4 > 12u) { x12 = x[x_start + 12u]; }
  var x13 = vec4f(); if (D4 > 13u) { x13 = x[x_start + 13u]; }
  var x14 = vec4f(); if (D4 > 14u) { x14 = x[x_start + 14u]; }
  var x15 = vec4f(); if (D4 > 15u) { x15 = x[x_start + 15u]; }
  var y_start = local_batch * params.m * D4;
  var at = params.out_at + (local_batch * params.n + row) * params.m;
  for (var col = 0u; col < params.m; col++) {
    var sum = gap4(x0, y[y_start]);
    if (D4 > 1u) { sum += gap4(x1, y[y_start + 1u]); }
    if (D4 > 2u) { sum += gap4(x2, y[y_start + 2u]); }
    if (D4 > 3u) { sum += gap4(x3, y[y_start + 3u]); }
    if (D4 > 4u) { sum += gap4(x4, y[y_start + 4u]); }
    if (D4 > 5u) { sum += gap4(x5, y[y_start + 5u]); }
    if (D4 > 6u) { sum += gap4(x6, y[y_start + 6u]); }
    if (D4 > 7u) { sum += gap4(x7, y[y_start + 7u]); }
    if (D4 > 8u) { sum += gap4(x8, y[y_start + 8u]); }
    if (D4 > 9u) { sum += gap4(x9, y[y_start + 9u]); }
    if (D4 > 10u) { sum += gap4(x10, y[y_start + 10u]); }
    if (D4 > 11u) { sum += gap4(x11, y[y_start + 11u]); }
    if (D4 > 12u) { sum += gap4(x12, y[y_start + 12u]); }
    if (D4 > 13u) { sum += gap4(x13, y[y_start + 13u]); }
    if (D4 > 14u) { sum += gap4(x14, y[y_start + 14u]); }
    if (D4 > 15u) { sum += gap4(x15, y[y_start + 15u]); }
    out[at] = entry(batch, row, col, (sum.x + sum.y) + (sum.z + sum.w));
    y_start += D4;
    at += 1u;
  }
}
