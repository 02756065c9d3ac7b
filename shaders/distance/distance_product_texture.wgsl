// Four neighbouring rows x 16 channels per thread, for software drivers: results stay in registers, channels come as texels, and a
// word of distances is looked up for four keys at once. Threads of a group take neighbouring rows of one slice of channels.
@group(0) @binding(1) var x: texture_2d<f32>; // [b, h, n, c]
@group(0) @binding(2) var<storage, read> distances: array<u32>; // [b or 1, h or 1, m, w]
@group(0) @binding(3) var<storage, read> table: array<f32>; // [h or 1, t]
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>; // [b, h, m, c]

fn texel(at: u32) -> vec4f { return textureLoad(x, texel_place(at), 0); }

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let quads = params.c / 4u;
  let slices = (quads + 3u) / 4u;
  let row_groups = (params.m + 31u) / 32u;
  let local_batch = group / (slices * row_groups);
  let row = group / slices % row_groups * 32u + 4u * thread;
  if (row >= params.m) { return; }
  let c = group % slices * 4u;
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let table_from = table_of(h);
  let x_from = params.x_at / 4u + local_batch * params.n * quads + c;
  // Channels past the end repeat the last and are not stored, and so do rows.
  let o1 = min(1u, quads - 1u - c);
  let o2 = min(2u, quads - 1u - c);
  let o3 = min(3u, quads - 1u - c);
  let head_from = params.distances_at + b * params.distances_b + h * params.distances_h;
  let a_from = head_from + min(row + 0u, params.m - 1u) * params.w;
  let b_from = head_from + min(row + 1u, params.m - 1u) * params.w;
  let c_from = head_from + min(row + 2u, params.m - 1u) * params.w;
  let d_from = head_from + min(row + 3u, params.m - 1u) * params.w;
  var a0 = vec4f(); var a1 = vec4f(); var a2 = vec4f(); var a3 = vec4f();
  var b0 = vec4f(); var b1 = vec4f(); var b2 = vec4f(); var b3 = vec4f();
  var c0 = vec4f(); var c1 = vec4f(); var c2 = vec4f(); var c3 = vec4f();
  var d0 = vec4f(); var d1 = vec4f(); var d2 = vec4f(); var d3 = vec4f();
  for (var key0 = 0u; key0 < params.n; key0 += 4u) {
    let a = weights_of(table_from, a_from, key0, params.n);
    let b = weights_of(table_from, b_from, key0, params.n);
    let c = weights_of(table_from, c_from, key0, params.n);
    let d = weights_of(table_from, d_from, key0, params.n);
    let k0 = x_from + min(key0 + 0u, params.n - 1u) * quads;
    let k1 = x_from + min(key0 + 1u, params.n - 1u) * quads;
    let k2 = x_from + min(key0 + 2u, params.n - 1u) * quads;
    let k3 = x_from + min(key0 + 3u, params.n - 1u) * quads;
    let x00 = texel(k0); let x01 = texel(k1); let x02 = texel(k2); let x03 = texel(k3);
    a0 += a.x * x00 + a.y * x01 + a.z * x02 + a.w * x03;
    b0 += b.x * x00 + b.y * x01 + b.z * x02 + b.w * x03;
    c0 += c.x * x00 + c.y * x01 + c.z * x02 + c.w * x03;
    d0 += d.x * x00 + d.y * x01 + d.z * x02 + d.w * x03;
    let x10 = texel(k0 + o1); let x11 = texel(k1 + o1); let x12 = texel(k2 + o1); let x13 = texel(k3 + o1);
    a1 += a.x * x10 + a.y * x11 + a.z * x12 + a.w * x13;
    b1 += b.x * x10 + b.y * x11 + b.z * x12 + b.w * x13;
    c1 += c.x * x10 + c.y * x11 + c.z * x12 + c.w * x13;
    d1 += d.x * x10 + d.y * x11 + d.z * x12 + d.w * x13;
    let x20 = texel(k0 + o2); let x21 = texel(k1 + o2); let x22 = texel(k2 + o2); let x23 = texel(k3 + o2);
    a2 += a.x * x20 + a.y * x21 + a.z * x22 + a.w * x23;
    b2 += b.x * x20 + b.y * x21 + b.z * x22 + b.w * x23;
    c2 += c.x * x20 + c.y * x21 + c.z * x22 + c.w * x23;
    d2 += d.x * x20 + d.y * x21 + d.z * x22 + d.w * x23;
    let x30 = texel(k0 + o3); let x31 = texel(k1 + o3); let x32 = texel(k2 + o3); let x33 = texel(k3 + o3);
    a3 += a.x * x30 + a.y * x31 + a.z * x32 + a.w * x33;
    b3 += b.x * x30 + b.y * x31 + b.z * x32 + b.w * x33;
    c3 += c.x * x30 + c.y * x31 + c.z * x32 + c.w * x33;
    d3 += d.x * x30 + d.y * x31 + d.z * x32 + d.w * x33;
  }
  let at = params.y_at / 4u + (local_batch * params.m + row) * quads + c;
  if (row + 0u < params.m) {
    y[at] = a0;
    if (c + 1u < quads) { y[at + 1u] = a1; }
    if (c + 2u < quads) { y[at + 2u] = a2; }
    if (c + 3u < quads) { y[at + 3u] = a3; }
  }
  if (row + 1u < params.m) {
    y[at + 1u * quads] = b0;
    if (c + 1u < quads) { y[at + 1u * quads + 1u] = b1; }
    if (c + 2u < quads) { y[at + 1u * quads + 2u] = b2; }
    if (c + 3u < quads) { y[at + 1u * quads + 3u] = b3; }
  }
  if (row + 2u < params.m) {
    y[at + 2u * quads] = c0;
    if (c + 1u < quads) { y[at + 2u * quads + 1u] = c1; }
    if (c + 2u < quads) { y[at + 2u * quads + 2u] = c2; }
    if (c + 3u < quads) { y[at + 2u * quads + 3u] = c3; }
  }
  if (row + 3u < params.m) {
    y[at + 3u * quads] = d0;
    if (c + 1u < quads) { y[at + 3u * quads + 1u] = d1; }
    if (c + 2u < quads) { y[at + 3u * quads + 2u] = d2; }
    if (c + 3u < quads) { y[at + 3u * quads + 3u] = d3; }
  }
}
