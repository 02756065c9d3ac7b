// Four query rows per thread, 8 threads per group, 32 value columns (WIDTH texels), for software drivers: queries and the state,
// whose texels all threads share, come through textures; see chunk_attend_texture.wgsl.
@group(0) @binding(1) var q: texture_2d<f32>;
@group(0) @binding(2) var state: texture_2d<f32>;
@group(0) @binding(3) var<storage, read> query_mask: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<storage, read_write> den: array<f32>;

fn texel_q(at: u32) -> vec4f { return textureLoad(q, texel_place(at), 0); }
fn texel_s(at: u32) -> vec4f { return textureLoad(state, texel_place(at), 0); }

fn row_is_kept(start: u32, row: u32) -> bool {
  if (!HAS_QUERY_MASK) { return true; }
  let at = start + row;
  return byte_of(query_mask[at >> 2u], at) != 0u;
}

fn store(at: u32, texel: u32, sums: vec4f, total: f32) {
  if (4u * texel >= params.e) { return; }
  // 0 where there is no key, or the row is left out.
  var x = vec4f();
  if (!(total == 0.0)) { x = sums / total; }
  let place = at + 4u * texel;
  out[place] = x.x;
  out[place + 1u] = x.y;
  out[place + 2u] = x.z;
  out[place + 3u] = x.w;
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let r_texels = params.r / 4u;
  let e_texels = params.e / 4u;
  let slices = (e_texels + 7u) / 8u;
  let row_groups = (params.n + 31u) / 32u;
  let local_batch = group / (slices * row_groups);
  let texel0 = group % slices * 8u;
  let row0 = group / slices % row_groups * 32u;
  let batch = params.batch_from + local_batch;
  let mask_from = params.query_mask_at + batch / params.h * params.query_mask_b + batch % params.h * params.query_mask_h;
  // Rows past the end repeat the last one and are not stored.
  let last = params.n - 1u;
  let rows = min(vec4u(row0 + thread) + vec4u(0u, 8u, 16u, 24u), vec4u(last));
  let q_from = vec4u(params.q_at / 4u + local_batch * params.n * r_texels) + rows * r_texels;
  let from_texel = (params.state_at + local_batch * params.s) / 4u;
  let sums_of_keys = from_texel + params.r * e_texels;
  var a0 = vec4f(); var b0 = vec4f(); var c0 = vec4f(); var d0 = vec4f();
  var a1 = vec4f(); var b1 = vec4f(); var c1 = vec4f(); var d1 = vec4f();
  var a2 = vec4f(); var b2 = vec4f(); var c2 = vec4f(); var d2 = vec4f();
  var a3 = vec4f(); var b3 = vec4f(); var c3 = vec4f(); var d3 = vec4f();
  var a4 = vec4f(); var b4 = vec4f(); var c4 = vec4f(); var d4 = vec4f();
  var a5 = vec4f(); var b5 = vec4f(); var c5 = vec4f(); var d5 = vec4f();
  var a6 = vec4f(); var b6 = vec4f(); var c6 = vec4f(); var d6 = vec4f();
  var a7 = vec4f(); var b7 = vec4f(); var c7 = vec4f(); var d7 = vec4f();
  var total = vec4f();
  for (var t = 0u; t < r_texels; t++) {
    var x_a = texel_q(q_from.x + t);
    var x_b = texel_q(q_from.y + t);
    var x_c = texel_q(q_from.z + t);
    var x_d = texel_q(q_from.w + t);
    let z = texel_s(sums_of_keys + t);
    total += vec4f(dot(x_a, z), dot(x_b, z), dot(x_c, z), dot(x_d, z));
    for (var l = 0u; l < 4u; l++) {
      let line = from_texel + (4u * t + l) * e_texels;
      if (WIDTH > 0u) { let x = texel_s(line + min(texel0 + 0u, e_texels - 1u)); a0 += x_a.x * x; b0 += x_b.x * x; c0 += x_c.x * x; d0 += x_d.x * x; }
      if (WIDTH > 1u) { let x = texel_s(line + min(texel0 + 1u, e_texels - 1u)); a1 += x_a.x * x; b1 += x_b.x * x; c1 += x_c.x * x; d1 += x_d.x * x; }
      if (WIDTH > 2u) { let x = texel_s(line + min(texel0 + 2u, e_texels - 1u)); a2 += x_a.x * x; b2 += x_b.x * x; c2 += x_c.x * x; d2 += x_d.x * x; }
      if (WIDTH > 3u) { let x = texel_s(line + min(texel0 + 3u, e_texels - 1u)); a3 += x_a.x * x; b3 += x_b.x * x; c3 += x_c.x * x; d3 += x_d.x * x; }
      if (WIDTH > 4u) { let x = texel_s(line + min(texel0 + 4u, e_texels - 1u)); a4 += x_a.x * x; b4 += x_b.x * x; c4 += x_c.x * x; d4 += x_d.x * x; }
      if (WIDTH > 5u) { let x = texel_s(line + min(texel0 + 5u, e_texels - 1u)); a5 += x_a.x * x; b5 += x_b.x * x; c5 += x_c.x * x; d5 += x_d.x * x; }
      if (WIDTH > 6u) { let x = texel_s(line + min(texel0 + 6u, e_texels - 1u)); a6 += x_a.x * x; b6 += x_b.x * x; c6 += x_c.x * x; d6 += x_d.x * x; }
      if (WIDTH > 7u) { let x = texel_s(line + min(texel0 + 7u, e_texels - 1u)); a7 += x_a.x * x; b7 += x_b.x * x; c7 += x_c.x * x; d7 += x_d.x * x; }
      x_a = x_a.yzwx;
      x_b = x_b.yzwx;
      x_c = x_c.yzwx;
      x_d = x_d.yzwx;
    }
  }
  // Selected: a row that is left out may hold anything.
  total = select(vec4f(), total, vec4<bool>(row_is_kept(mask_from, rows.x), row_is_kept(mask_from, rows.y),
    row_is_kept(mask_from, rows.z), row_is_kept(mask_from, rows.w)));

  let out_from = params.out_at + local_batch * params.n * params.e;
  let den_from = params.den_at + local_batch * params.n;
  if (row0 + thread <= last) {
    let at = out_from + (row0 + thread) * params.e;
    if (WIDTH > 0u) { store(at, texel0 + 0u, a0, total.x); }
    if (WIDTH > 1u) { store(at, texel0 + 1u, a1, total.x); }
    if (WIDTH > 2u) { store(at, texel0 + 2u, a2, total.x); }
    if (WIDTH > 3u) { store(at, texel0 + 3u, a3, total.x); }
    if (WIDTH > 4u) { store(at, texel0 + 4u, a4, total.x); }
    if (WIDTH > 5u) { store(at, texel0 + 5u, a5, total.x); }
    if (WIDTH > 6u) { store(at, texel0 + 6u, a6, total.x); }
    if (WIDTH > 7u) { store(at, texel0 + 7u, a7, total.x); }
    if (HAS_DEN) {
      if (texel0 == 0u) { den[den_from + row0 + thread] = total.x; }
    }
  }
  if (row0 + thread + 8u <= last) {
    let at = out_from + (row0 + thread + 8u) * params.e;
    if (WIDTH > 0u) { store(at, texel0 + 0u, b0, total.y); }
    if (WIDTH > 1u) { store(at, texel0 + 1u, b1, total.y); }
    if (WIDTH > 2u) { store(at, texel0 + 2u, b2, total.y); }
    if (WIDTH > 3u) { store(at, texel0 + 3u, b3, total.y); }
    if (WIDTH > 4u) { store(at, texel0 + 4u, b4, total.y); }
    if (WIDTH > 5u) { store(at, texel0 + 5u, b5, total.y); }
    if (WIDTH > 6u) { store(at, texel0 + 6u, b6, total.y); }
    if (WIDTH > 7u) { store(at, texel0 + 7u, b7, total.y); }
    if (HAS_DEN) {
      if (texel0 == 0u) { den[den_from + row0 + thread + 8u] = total.y; }
    }
  }
  if (row0 + thread + 16u <= last) {
    let at = out_from + (row0 + thread + 16u) * params.e;
    if (WIDTH > 0u) { store(at, texel0 + 0u, c0, total.z); }
    if (WIDTH > 1u) { store(at, texel0 + 1u, c1, total.z); }
    if (WIDTH > 2u) { store(at, texel0 + 2u, c2, total.z); }
    if (WIDTH > 3u) { store(at, texel0 + 3u, c3, total.z); }
    if (WIDTH > 4u) { store(at, texel0 + 4u, c4, total.z); }
    if (WIDTH > 5u) { store(at, texel0 + 5u, c5, total.z); }
    if (WIDTH > 6u) { store(at, texel0 + 6u, c6, total.z); }
    if (WIDTH > 7u) { store(at, texel0 + 7u, c7, total.z); }
    if (HAS_DEN) {
      if (texel0 == 0u) { den[den_from + row0 + thread + 16u] = total.z; }
    }
  }
  if (row0 + thread + 24u <= last) {
    let at = out_from + (row0 + thread + 24u) * params.e;
    if (WIDTH > 0u) { store(at, texel0 + 0u, d0, total.w); }
    if (WIDTH > 1u) { store(at, texel0 + 1u, d1, total.w); }
    if (WIDTH > 2u) { store(at, texel0 + 2u, d2, total.w); }
    if (WIDTH > 3u) { store(at, texel0 + 3u, d3, total.w); }
    if (WIDTH > 4u) { store(at, texel0 + 4u, d4, total.w); }
    if (WIDTH > 5u) { store(at, texel0 + 5u, d5, total.w); }
    if (WIDTH > 6u) { store(at, texel0 + 6u, d6, total.w); }
    if (WIDTH > 7u) { store(at, texel0 + 7u, d7, total.w); }
    if (HAS_DEN) {
      if (texel0 == 0u) { den[den_from + row0 + thread + 24u] = total.w; }
    }
  }
}
