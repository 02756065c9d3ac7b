// Two keys per thread, 8 threads per group, for software drivers: keys stay in registers (HELD texels of 4 coordinates, 64
// coordinates at most), queries come as texels that all threads read alike; beyond 64 coordinates both sides do.
@group(0) @binding(1) var q: texture_2d<f32>; // [b, h, n, d]
@group(0) @binding(2) var k: texture_2d<f32>; // [b, h, m, d]
@group(0) @binding(3) var<storage, read> lambda: array<f32>; // [h] or [1]
@group(0) @binding(4) var<storage, read> query_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(5) var<storage, read> row_shift: array<f32>; // [b, h, n, w]
@group(0) @binding(6) var<storage, read> before: array<f32>; // [b, h, m, 3]
@group(0) @binding(7) var<storage, read_write> moments: array<f32>; // [b, h, m, p]

fn texel_q(at: u32) -> vec4f { return textureLoad(q, vec2u(at & 2047u, at >> 11u), 0); }
fn texel_k(at: u32) -> vec4f { return textureLoad(k, vec2u(at & 2047u, at >> 11u), 0); }

// Coordinates past the end are 0 on both sides.
fn held_k(start: u32, t: u32) -> vec4f {
  if (t >= HELD) { return vec4f(); }
  return texel_k(start + t);
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let texels = params.d / 4u;
  let key_groups = (params.m + 15u) / 16u;
  let local_batch = group / key_groups;
  // Keys past the end repeat the last one and are not stored.
  let last = params.m - 1u;
  let key_a = group % key_groups * 16u + thread;
  let key_b = key_a + 8u;
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let q_from = params.q_at / 4u + local_batch * params.n * texels;
  let ka_from = params.k_at / 4u + (local_batch * params.m + min(key_a, last)) * texels;
  let kb_from = params.k_at / 4u + (local_batch * params.m + min(key_b, last)) * texels;
  let query_mask_from = params.query_mask_at + b * params.query_mask_b + h * params.query_mask_h;
  let row_shift_from = params.row_shift_at + local_batch * params.n * params.w;
  var bandwidth = 1.0;
  if (METRIC != 0u) { bandwidth = lambda[params.lambda_at + h % params.bandwidths]; }

  let ka0 = held_k(ka_from, 0u); let kb0 = held_k(kb_from, 0u);
  let ka1 = held_k(ka_from, 1u); let kb1 = held_k(kb_from, 1u);
  let ka2 = held_k(ka_from, 2u); let kb2 = held_k(kb_from, 2u);
  let ka3 = held_k(ka_from, 3u); let kb3 = held_k(kb_from, 3u);
  let ka4 = held_k(ka_from, 4u); let kb4 = held_k(kb_from, 4u);
  let ka5 = held_k(ka_from, 5u); let kb5 = held_k(kb_from, 5u);
  let ka6 = held_k(ka_from, 6u); let kb6 = held_k(kb_from, 6u);
  let ka7 = held_k(ka_from, 7u); let kb7 = held_k(kb_from, 7u);
  let ka8 = held_k(ka_from, 8u); let kb8 = held_k(kb_from, 8u);
  let ka9 = held_k(ka_from, 9u); let kb9 = held_k(kb_from, 9u);
  let ka10 = held_k(ka_from, 10u); let kb10 = held_k(kb_from, 10u);
  let ka11 = held_k(ka_from, 11u); let kb11 = held_k(kb_from, 11u);
  let ka12 = held_k(ka_from, 12u); let kb12 = held_k(kb_from, 12u);
  let ka13 = held_k(ka_from, 13u); let kb13 = held_k(kb_from, 13u);
  let ka14 = held_k(ka_from, 14u); let kb14 = held_k(kb_from, 14u);
  let ka15 = held_k(ka_from, 15u); let kb15 = held_k(kb_from, 15u);

  // x for the first key, y for the second.
  var mean = vec2f();
  var squares = vec2f();
  var taken = 0.0;
  for (var query0 = 0u; query0 < params.n; query0 += 32u) {
    var first_sum = vec2f();
    var square_sum = vec2f();
    for (var query = query0; query < min(query0 + 32u, params.n); query++) {
      if (!query_is_kept(query_mask_from, query)) { continue; }
      let at = q_from + query * texels;
      var sum_a = vec4f();
      var sum_b = vec4f();
      if (HELD > 0u) { let x = texel_q(at + 0u); sum_a += pair(x, ka0); sum_b += pair(x, kb0); }
      if (HELD > 1u) { let x = texel_q(at + 1u); sum_a += pair(x, ka1); sum_b += pair(x, kb1); }
      if (HELD > 2u) { let x = texel_q(at + 2u); sum_a += pair(x, ka2); sum_b += pair(x, kb2); }
      if (HELD > 3u) { let x = texel_q(at + 3u); sum_a += pair(x, ka3); sum_b += pair(x, kb3); }
      if (HELD > 4u) { let x = texel_q(at + 4u); sum_a += pair(x, ka4); sum_b += pair(x, kb4); }
      if (HELD > 5u) { let x = texel_q(at + 5u); sum_a += pair(x, ka5); sum_b += pair(x, kb5); }
      if (HELD > 6u) { let x = texel_q(at + 6u); sum_a += pair(x, ka6); sum_b += pair(x, kb6); }
      if (HELD > 7u) { let x = texel_q(at + 7u); sum_a += pair(x, ka7); sum_b += pair(x, kb7); }
      if (HELD > 8u) { let x = texel_q(at + 8u); sum_a += pair(x, ka8); sum_b += pair(x, kb8); }
      if (HELD > 9u) { let x = texel_q(at + 9u); sum_a += pair(x, ka9); sum_b += pair(x, kb9); }
      if (HELD > 10u) { let x = texel_q(at + 10u); sum_a += pair(x, ka10); sum_b += pair(x, kb10); }
      if (HELD > 11u) { let x = texel_q(at + 11u); sum_a += pair(x, ka11); sum_b += pair(x, kb11); }
      if (HELD > 12u) { let x = texel_q(at + 12u); sum_a += pair(x, ka12); sum_b += pair(x, kb12); }
      if (HELD > 13u) { let x = texel_q(at + 13u); sum_a += pair(x, ka13); sum_b += pair(x, kb13); }
      if (HELD > 14u) { let x = texel_q(at + 14u); sum_a += pair(x, ka14); sum_b += pair(x, kb14); }
      if (HELD > 15u) { let x = texel_q(at + 15u); sum_a += pair(x, ka15); sum_b += pair(x, kb15); }
      for (var t = 16u; t < texels; t++) {
        let x = texel_q(at + t);
        sum_a += pair(x, texel_k(ka_from + t));
        sum_b += pair(x, texel_k(kb_from + t));
      }
      let sums = vec4f((sum_a.x + sum_a.y) + (sum_a.z + sum_a.w), (sum_b.x + sum_b.y) + (sum_b.z + sum_b.w), 0.0, 0.0);
      let exponents = exponent(sums, bandwidth);
      let x = vec2f(exp_accurate(exponents.x), exp_accurate(exponents.y)) - vec2f(shift_of(row_shift_from, query));
      if (taken == 0.0) { mean = x; }
      first_sum += x - mean;
      square_sum += (x - mean) * (x - mean);
      taken += 1.0;
    }
    let step = first_sum / max(taken, 1.0);
    mean += step;
    squares += square_sum - step * first_sum;
  }
  store(local_batch, key_a, mean.x, squares.x, taken);
  store(local_batch, key_b, mean.y, squares.y, taken);
}
