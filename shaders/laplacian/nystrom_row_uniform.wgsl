// The same with the key in registers, landmarks and weights in uniform buffers: heads of up to 64 coordinates. One query
// at a time; the registers are written out because a dynamically indexed array would live in memory.
@group(0) @binding(1) var<storage, read> k: array<vec4f>;
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

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  // Queries are in the grid, not in a loop: llvmpipe cuts long loops short.
  let key_groups = (params.n + 63u) / 64u;
  let local_batch = group / (key_groups * params.r);
  let query = group / key_groups % params.r;
  let key = group % key_groups * 64u + thread;
  if (key >= params.n) { return; }
  let batch = params.batch_from + local_batch;
  let bandwidth = bandwidth_of(batch % params.h);
  let k_start = params.k_at / 4u + (local_batch * params.n + key) * D4;
  let k0 = k[k_start];
  var k1 = vec4f(); if (D4 > 1u) { k1 = k[k_start + 1u]; }
  var k2 = vec4f(); if (D4 > 2u) { k2 = k[k_start + 2u]; }
  var k3 = vec4f(); if (D4 > 3u) { k3 = k[k_start + 3u]; }
  var k4 = vec4f(); if (D4 > 4u) { k4 = k[k_start + 4u]; }
  var k5 = vec4f(); if (D4 > 5u) { k5 = k[k_start + 5u]; }
  var k6 = vec4f(); if (D4 > 6u) { k6 = k[k_start + 6u]; }
  var k7 = vec4f(); if (D4 > 7u) { k7 = k[k_start + 7u]; }
  var k8 = vec4f(); if (D4 > 8u) { k8 = k[k_start + 8u]; }
  var k9 = vec4f(); if (D4 > 9u) { k9 = k[k_start + 9u]; }
  var k10 = vec4f(); if (D4 > 10u) { k10 = k[k_start + 10u]; }
  var k11 = vec4f(); if (D4 > 11u) { k11 = k[k_start + 11u]; }
  var k12 = vec4f(); if (D4 > 12u) { k12 = k[k_start + 12u]; }
  var k13 = vec4f(); if (D4 > 13u) { k13 = k[k_start + 13u]; }
  var k14 = vec4f(); if (D4 > 14u) { k14 = k[k_start + 14u]; }
  var k15 = vec4f(); if (D4 > 15u) { k15 = k[k_start + 15u]; }
  let w_start = (local_batch * params.r + query) * params.mw;
  let last = w_start + params.m;
  var sum = weights[last >> 2u][last & 3u];
  var l_start = local_batch * params.m * D4;
  for (var l = 0u; l < params.m; l++) {
    var gaps = gap4(k0, landmarks[l_start]);
    if (D4 > 1u) { gaps += gap4(k1, landmarks[l_start + 1u]); }
    if (D4 > 2u) { gaps += gap4(k2, landmarks[l_start + 2u]); }
    if (D4 > 3u) { gaps += gap4(k3, landmarks[l_start + 3u]); }
    if (D4 > 4u) { gaps += gap4(k4, landmarks[l_start + 4u]); }
    if (D4 > 5u) { gaps += gap4(k5, landmarks[l_start + 5u]); }
    if (D4 > 6u) { gaps += gap4(k6, landmarks[l_start + 6u]); }
    if (D4 > 7u) { gaps += gap4(k7, landmarks[l_start + 7u]); }
    if (D4 > 8u) { gaps += gap4(k8, landmarks[l_start + 8u]); }
    if (D4 > 9u) { gaps += gap4(k9, landmarks[l_start + 9u]); }
    if (D4 > 10u) { gaps += gap4(k10, landmarks[l_start + 10u]); }
    if (D4 > 11u) { gaps += gap4(k11, landmarks[l_start + 11u]); }
    if (D4 > 12u) { gaps += gap4(k12, landmarks[l_start + 12u]); }
    if (D4 > 13u) { gaps += gap4(k13, landmarks[l_start + 13u]); }
    if (D4 > 14u) { gaps += gap4(k14, landmarks[l_start + 14u]); }
    if (D4 > 15u) { gaps += gap4(k15, landmarks[l_start + 15u]); }
    let at = w_start + l;
    sum += weights[at >> 2u][at & 3u] * finish((gaps.x + gaps.y) + (gaps.z + gaps.w), bandwidth);
    l_start += D4;
  }
  if (HAS_SCALE) { sum *= scale[params.scale_at + local_batch * params.n + key]; }
  if (HAS_SHARE) { sum += params.constant * share[params.share_at + local_batch]; } else { sum += params.constant; }
  out[params.out_at + (local_batch * params.n + key) * params.r + query] = select(0.0, sum, is_kept(batch, key));
}
