// Two keys per thread in registers, keys from a texture, landmarks and weights in uniform buffers: what llvmpipe wants, where
// a texel costs a tenth of four storage words and two keys share each landmark. Heads of up to 64 coordinates.
@group(0) @binding(1) var k: texture_2d<f32>;
@group(0) @binding(2) var<uniform> landmarks: array<vec4f, 4096>;
@group(0) @binding(3) var<uniform> weights: array<vec4f, 4096>;
@group(0) @binding(4) var<storage, read> lambda: array<f32>;
@group(0) @binding(5) var<storage, read> scale: array<f32>;
@group(0) @binding(6) var<storage, read> keep: array<u32>;
@group(0) @binding(7) var<storage, read> share: array<f32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

fn is_kept(batch: u32, key: u32) -> bool {
  if (!HAS_KEEP) { return true; }
  let at = params.keep_at + batch / params.h * params.keep_b + batch % params.h * params.keep_h + key;
  return byte_of(keep[at >> 2u], at) != 0u;
}

fn texel(at: u32) -> vec4f { return textureLoad(k, texel_place(at), 0); }

fn store(local_batch: u32, batch: u32, key: u32, query: u32, x: f32) {
  var sum = x;
  if (HAS_SCALE) { sum *= scale[params.scale_at + local_batch * params.n + key]; }
  if (HAS_SHARE) { sum += params.constant * share[params.share_at + local_batch]; } else { sum += params.constant; }
  out[params.out_at + (local_batch * params.n + key) * params.r + query] = select(0.0, sum, is_kept(batch, key));
}

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let keys = params.n;
  let landmark_count = params.m;
  // Queries are in the grid, not in a loop: llvmpipe cuts long loops short.
  let key_groups = (keys + 63u) / 64u;
  let local_batch = group / (key_groups * params.r);
  let query = group / key_groups % params.r;
  let key0 = group % key_groups * 64u + thread;
  let key1 = key0 + 32u;
  if (key0 >= keys) { return; }
  let batch = params.batch_from + local_batch;
  let bandwidth = bandwidth_of(batch % params.h);
  let p = params.k_at / 4u + (local_batch * keys + key0) * D4;
  let q = params.k_at / 4u + (local_batch * keys + min(key1, keys - 1u)) * D4;
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
  let w_start = (local_batch * params.r + query) * params.mw;
  let last = w_start + landmark_count;
  let shift = weights[last >> 2u][last & 3u];
  var sums = vec2f(shift);
  var l_start = local_batch * landmark_count * D4;
  for (var at = w_start; at < last; at++) {
    let y0 = landmarks[l_start];
    var s = gap4(p0, y0); var t = gap4(q0, y0);
    if (D4 > 1u) { let v = landmarks[l_start + 1u]; s += gap4(p1, v); t += gap4(q1, v); }
    if (D4 > 2u) { let v = landmarks[l_start + 2u]; s += gap4(p2, v); t += gap4(q2, v); }
    if (D4 > 3u) { let v = landmarks[l_start + 3u]; s += gap4(p3, v); t += gap4(q3, v); }
    if (D4 > 4u) { let v = landmarks[l_start + 4u]; s += gap4(p4, v); t += gap4(q4, v); }
    if (D4 > 5u) { let v = landmarks[l_start + 5u]; s += gap4(p5, v); t += gap4(q5, v); }
    if (D4 > 6u) { let v = landmarks[l_start + 6u]; s += gap4(p6, v); t += gap4(q6, v); }
    if (D4 > 7u) { let v = landmarks[l_start + 7u]; s += gap4(p7, v); t += gap4(q7, v); }
    if (D4 > 8u) { let v = landmarks[l_start + 8u]; s += gap4(p8, v); t += gap4(q8, v); }
    if (D4 > 9u) { let v = landmarks[l_start + 9u]; s += gap4(p9, v); t += gap4(q9, v); }
    if (D4 > 10u) { let v = landmarks[l_start + 10u]; s += gap4(p10, v); t += gap4(q10, v); }
    if (D4 > 11u) { let v = landmarks[l_start + 11u]; s += gap4(p11, v); t += gap4(q11, v); }
    if (D4 > 12u) { let v = landmarks[l_start + 12u]; s += gap4(p12, v); t += gap4(q12, v); }
    if (D4 > 13u) { let v = landmarks[l_start + 13u]; s += gap4(p13, v); t += gap4(q13, v); }
    if (D4 > 14u) { let v = landmarks[l_start + 14u]; s += gap4(p14, v); t += gap4(q14, v); }
    if (D4 > 15u) { let v = landmarks[l_start + 15u]; s += gap4(p15, v); t += gap4(q15, v); }
    let weight = weights[at >> 2u][at & 3u];
    sums += weight * vec2f(finish((s.x + s.y) + (s.z + s.w), bandwidth), finish((t.x + t.y) + (t.z + t.w), bandwidth));
    l_start += D4;
  }
  store(local_batch, batch, key0, query, sums.x);
  if (key1 < keys) { store(local_batch, batch, key1, query, sums.y); }
}
