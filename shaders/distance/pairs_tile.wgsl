// Attention pair by pair within a block of rows that see the same keys: 64 query rows (a thread each) x 32 value columns per group.
// Keys come in tiles of 16 through workgroup memory, features in slices of 16, so that any number of either fits. With softmax the
// largest score so far is kept, of pairs that the mask does not leave out, and what was summed is scaled when it grows.
// The kernel says which rows and keys belong together (`place_of`) and what a pair weighs (`mask_of`).

// [4 features of 4, 16 keys], [16 keys, 8 times four columns], [16 keys, 64 rows] read by the thread that wrote it. 7 KiB.
var<workgroup> k_tile: array<vec4f, 64>;
var<workgroup> v_tile: array<vec4f, 128>;
var<workgroup> weight_tile: array<f32, 1024>;

fn load_q(start: u32, c: u32) -> f32 {
  var value = 0.0;
  if (c < params.r) { value = q[start + c]; }
  return value;
}

fn load_k(start: u32, key: u32, last: u32, c: u32) -> f32 {
  var value = 0.0;
  if (key < last && c < params.r) { value = k[start + key * params.r + c]; }
  return value;
}

// Keys left out give 0, whatever they hold.
fn load_v(start: u32, key: u32, kept: bool, c: u32) -> f32 {
  var value = 0.0;
  if (kept && c < params.e) { value = v[start + key * params.e + c]; }
  return value;
}

fn pairs(q4: vec4f, key: u32) -> vec4f {
  return vec4f(part(q4, k_tile[key]), part(q4, k_tile[key + 1u]), part(q4, k_tile[key + 2u]), part(q4, k_tile[key + 3u]));
}

fn store(at: u32, c: u32, value: vec4f) {
  for (var t = 0u; t < 4u; t++) {
    if (c + t < params.e) { out[at + c + t] = value[t]; }
  }
}

fn keep(thread: u32, key: u32, w: vec4f) {
  weight_tile[64u * key + thread] = w.x;
  weight_tile[64u * key + 64u + thread] = w.y;
  weight_tile[64u * key + 128u + thread] = w.z;
  weight_tile[64u * key + 192u + thread] = w.w;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let slices = (params.e + 31u) / 32u;
  let blocks = blocks_of(64u);
  let local_batch = group / (slices * blocks);
  let place = place_of(params.batch_from + local_batch, group / slices % blocks, 64u);
  if (place.rows == 0u) { return; }
  let c0 = group % slices * 32u;
  // Threads past the end repeat the last row and store nothing.
  let row = place.row + min(thread, place.rows - 1u);
  let q_from = params.q_at + query_of(local_batch, row) * params.r;
  let k_from = params.k_at + local_batch * params.n * params.r;
  let v_from = params.v_at + local_batch * params.n * params.e;
  var y0 = vec4f(); var y1 = vec4f(); var y2 = vec4f(); var y3 = vec4f();
  var y4 = vec4f(); var y5 = vec4f(); var y6 = vec4f(); var y7 = vec4f();
  var total = 0.0;
  var top = LOWEST;
  for (var key0 = place.first; key0 < place.last; key0 += 16u) {
    for (var t = thread; t < 128u; t += 64u) {
      let key = key0 + t / 8u;
      let c = c0 + 4u * (t % 8u);
      let kept = key < place.last && key_is_kept(place, min(key, params.n - 1u));
      v_tile[t] = vec4f(load_v(v_from, key, kept, c), load_v(v_from, key, kept, c + 1u),
        load_v(v_from, key, kept, c + 2u), load_v(v_from, key, kept, c + 3u));
    }
    var s0 = vec4f(); var s1 = vec4f(); var s2 = vec4f(); var s3 = vec4f();
    for (var f0 = 0u; f0 < params.r; f0 += 16u) {
      let key = key0 + thread % 16u;
      let f = f0 + 4u * (thread / 16u);
      k_tile[thread] = vec4f(load_k(k_from, key, place.last, f), load_k(k_from, key, place.last, f + 1u),
        load_k(k_from, key, place.last, f + 2u), load_k(k_from, key, place.last, f + 3u));
      workgroupBarrier(); // the slice of keys is complete before anyone reads it
      for (var t = 0u; t < 4u; t++) {
        let at = f0 + 4u * t;
        let q4 = vec4f(load_q(q_from, at), load_q(q_from, at + 1u), load_q(q_from, at + 2u), load_q(q_from, at + 3u));
        s0 += pairs(q4, 16u * t);
        s1 += pairs(q4, 16u * t + 4u);
        s2 += pairs(q4, 16u * t + 8u);
        s3 += pairs(q4, 16u * t + 12u);
      }
      workgroupBarrier(); // nobody overwrites a slice that others still read
    }
    let m0 = mask_of(place, row, key0);
    let m1 = mask_of(place, row, key0 + 4u);
    let m2 = mask_of(place, row, key0 + 8u);
    let m3 = mask_of(place, row, key0 + 12u);
    if (SCORES != LINEAR) {
      s0 = score(s0); s1 = score(s1); s2 = score(s2); s3 = score(s3);
      let greatest = max(max(seen(m0, s0), seen(m1, s1)), max(seen(m2, s2), seen(m3, s3)));
      let next = max(top, max(max(greatest.x, greatest.y), max(greatest.z, greatest.w)));
      let shrink = exp_accurate(top - next);
      top = next;
      total *= shrink;
      y0 *= shrink; y1 *= shrink; y2 *= shrink; y3 *= shrink;
      y4 *= shrink; y5 *= shrink; y6 *= shrink; y7 *= shrink;
      s0 = exp4(s0, top); s1 = exp4(s1, top); s2 = exp4(s2, top); s3 = exp4(s3, top);
    }
    s0 = weighted(m0, s0); s1 = weighted(m1, s1); s2 = weighted(m2, s2); s3 = weighted(m3, s3);
    total += dot(s0 + s1 + s2 + s3, vec4f(1.0));
    keep(thread, 0u, s0); keep(thread, 4u, s1); keep(thread, 8u, s2); keep(thread, 12u, s3);
    if (params.r == 0u) { workgroupBarrier(); } // without features no barrier came between the values and here
    for (var j = 0u; j < 16u; j++) {
      let w = weight_tile[64u * j + thread];
      y0 += w * v_tile[8u * j]; y1 += w * v_tile[8u * j + 1u];
      y2 += w * v_tile[8u * j + 2u]; y3 += w * v_tile[8u * j + 3u];
      y4 += w * v_tile[8u * j + 4u]; y5 += w * v_tile[8u * j + 5u];
      y6 += w * v_tile[8u * j + 6u]; y7 += w * v_tile[8u * j + 7u];
    }
    workgroupBarrier(); // nobody overwrites values that others still read
  }
  if (thread < place.rows) {
    let asked = row_is_asked(place, row);
    let at = params.out_at + query_of(local_batch, row) * params.e;
    store(at, c0, finished(y0, total, asked)); store(at, c0 + 4u, finished(y1, total, asked));
    store(at, c0 + 8u, finished(y2, total, asked)); store(at, c0 + 12u, finished(y3, total, asked));
    store(at, c0 + 16u, finished(y4, total, asked)); store(at, c0 + 20u, finished(y5, total, asked));
    store(at, c0 + 24u, finished(y6, total, asked)); store(at, c0 + 28u, finished(y7, total, asked));
  }
}
