// 8 features x 8 value columns of one chunk's state per thread, keys and values read as texels; COL_LANES of the 8 threads lie
// side by side, the others below them. Keys come from the chunk's edge inward, so that their weight fades by one
// multiplication each. Threads of the first columns also store the sums of keys.
@group(0) @binding(1) var k: texture_2d<f32>;
@group(0) @binding(2) var v: texture_2d<f32>;
@group(0) @binding(3) var<storage, read> powers: array<f32>;
@group(0) @binding(4) var<storage, read> key_mask: array<u32>;
@group(0) @binding(5) var<storage, read> reach: array<u32>;
@group(0) @binding(6) var<storage, read_write> states: array<f32>;

fn texel_k(at: u32) -> vec4f { return textureLoad(k, texel_place(at), 0); }
fn texel_v(at: u32) -> vec4f { return textureLoad(v, texel_place(at), 0); }

fn store(state: u32, row: u32, col: u32, lo: vec4f, hi: vec4f, sum: f32) {
  if (row >= params.r) { return; }
  let at = state + row * params.e + col;
  if (col < params.e) {
    states[at] = lo.x;
    states[at + 1u] = lo.y;
    states[at + 2u] = lo.z;
    states[at + 3u] = lo.w;
  }
  if (col + 4u < params.e) {
    states[at + 4u] = hi.x;
    states[at + 5u] = hi.y;
    states[at + 6u] = hi.z;
    states[at + 7u] = hi.w;
  }
  if (col == 0u) { states[state + params.r * params.e + row] = sum; }
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_tiles = (params.e + 8u * COL_LANES - 1u) / (8u * COL_LANES);
  let rows_per_tile = 64u / COL_LANES;
  let row_tiles = (params.r + rows_per_tile - 1u) / rows_per_tile;
  let place = group / (row_tiles * col_tiles); // local head, chunk and side
  let row0 = group / col_tiles % row_tiles * rows_per_tile + thread / COL_LANES * 8u;
  let col0 = (group % col_tiles * COL_LANES + thread % COL_LANES) * 8u;
  let side = place % (1u + TWO_SIDED);
  let chunk = place / (1u + TWO_SIDED) % params.c;
  let local_batch = place / (1u + TWO_SIDED) / params.c;
  let batch = params.batch_from + local_batch;
  let mask_from = key_mask_start(batch);
  let reach_from = reach_start(batch);
  let first = chunk * params.rows;
  let end = min(first + params.rows, params.n);
  let edge = select(end - 1u, first, side == 1u);
  let seen = reach_of(reach_from, edge);
  let keys = min(end - first, select(seen.x, seen.y, side == 1u));
  let decay = power(powers_start(batch), select(0u, 1u, HAS_POWERS));
  let r_texels = params.r / 4u;
  let e_texels = params.e / 4u;
  // The second texel of the last eight may lie past the row's end: it is not stored.
  let k_from = params.k_at / 4u + local_batch * params.n * r_texels + min(row0 / 4u, r_texels - 1u);
  let v_from = params.v_at / 4u + local_batch * params.n * e_texels + min(col0 / 4u, e_texels - 1u);
  var c0 = vec4f(); var d0 = vec4f();
  var c1 = vec4f(); var d1 = vec4f();
  var c2 = vec4f(); var d2 = vec4f();
  var c3 = vec4f(); var d3 = vec4f();
  var c4 = vec4f(); var d4 = vec4f();
  var c5 = vec4f(); var d5 = vec4f();
  var c6 = vec4f(); var d6 = vec4f();
  var c7 = vec4f(); var d7 = vec4f();
  var sum_lo = vec4f(); var sum_hi = vec4f();
  var fade = 1.0;
  for (var step = 0u; step < keys; step++) {
    let j = select(edge - step, edge + step, side == 1u);
    if (HAS_POWERS && step > 0u) { fade *= decay; }
    if (!key_counts(mask_from, reach_from, j)) { continue; }
    let at_k = k_from + j * r_texels;
    let at_v = v_from + j * e_texels;
    let xlo = texel_k(at_k) * fade;
    let xhi = texel_k(at_k + 1u) * fade;
    let ylo = texel_v(at_v);
    let yhi = texel_v(at_v + 1u);
    sum_lo += xlo;
    sum_hi += xhi;
    c0 += xlo.x * ylo; c1 += xlo.y * ylo; c2 += xlo.z * ylo; c3 += xlo.w * ylo;
    c4 += xhi.x * ylo; c5 += xhi.y * ylo; c6 += xhi.z * ylo; c7 += xhi.w * ylo;
    d0 += xlo.x * yhi; d1 += xlo.y * yhi; d2 += xlo.z * yhi; d3 += xlo.w * yhi;
    d4 += xhi.x * yhi; d5 += xhi.y * yhi; d6 += xhi.z * yhi; d7 += xhi.w * yhi;
  }
  let state = params.states_at + (local_batch * params.c + chunk) * params.s + side * params.r * (params.e + 1u);
  store(state, row0, col0, c0, d0, sum_lo.x);
  store(state, row0 + 1u, col0, c1, d1, sum_lo.y);
  store(state, row0 + 2u, col0, c2, d2, sum_lo.z);
  store(state, row0 + 3u, col0, c3, d3, sum_lo.w);
  store(state, row0 + 4u, col0, c4, d4, sum_hi.x);
  store(state, row0 + 5u, col0, c5, d5, sum_hi.y);
  store(state, row0 + 6u, col0, c6, d6, sum_hi.z);
  store(state, row0 + 7u, col0, c7, d7, sum_hi.w);
}
