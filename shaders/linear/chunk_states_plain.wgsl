// 4 features x 4 value columns of one chunk's state per thread, straight from storage; the column past the last is the
// ones column, whose sums stand behind the products.
@group(0) @binding(1) var<storage, read> k: array<f32>;
@group(0) @binding(2) var<storage, read> v: array<f32>;
@group(0) @binding(3) var<storage, read> powers: array<f32>;
@group(0) @binding(4) var<storage, read> key_mask: array<u32>;
@group(0) @binding(5) var<storage, read> reach: array<u32>;
@group(0) @binding(6) var<storage, read_write> states: array<f32>;

fn value(at: u32, col: u32) -> f32 {
  if (col >= params.e) { return 1.0; }
  return v[at + col];
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_blocks = (params.e + 4u) / 4u;
  let row_blocks = (params.r + 3u) / 4u;
  let groups_per_side = (row_blocks * col_blocks + 63u) / 64u;
  let place = group / groups_per_side; // local head, chunk and side
  let block = group % groups_per_side * 64u + thread;
  if (block >= row_blocks * col_blocks) { return; }
  let row0 = block / col_blocks * 4u;
  let col0 = block % col_blocks * 4u;
  let sides = 1u + TWO_SIDED;
  let side = place % sides;
  let chunk = place / sides % params.c;
  let local_batch = place / sides / params.c;
  let batch = params.batch_from + local_batch;
  let mask_from = key_mask_start(batch);
  let reach_from = reach_start(batch);
  let powers_from = powers_start(batch);
  let first = chunk * params.rows;
  let end = min(first + params.rows, params.n);
  // Keys that the edge token sees: those of its segment.
  let edge = select(end - 1u, first, side == 1u);
  let seen = reach_of(reach_from, edge);
  let seen_there = select(seen.x, seen.y, side == 1u);
  let rows = min(vec4u(row0) + vec4u(0u, 1u, 2u, 3u), vec4u(params.r - 1u));
  let k_from = params.k_at + local_batch * params.n * params.r;
  let v_from = params.v_at + local_batch * params.n * params.e;
  var c0 = vec4f(); var c1 = vec4f(); var c2 = vec4f(); var c3 = vec4f();
  for (var j = first; j < end; j++) {
    let distance = select(edge - j, j - edge, side == 1u);
    if (distance >= seen_there || !key_counts(mask_from, reach_from, j)) { continue; }
    let at_v = v_from + j * params.e;
    let line = power(powers_from, distance)
      * vec4f(value(at_v, col0), value(at_v, col0 + 1u), value(at_v, col0 + 2u), value(at_v, col0 + 3u));
    let at_k = vec4u(k_from + j * params.r) + rows;
    c0 += k[at_k.x] * line;
    c1 += k[at_k.y] * line;
    c2 += k[at_k.z] * line;
    c3 += k[at_k.w] * line;
  }
  let state = params.states_at + (local_batch * params.c + chunk) * params.s + side * params.r * (params.e + 1u);
  for (var i = 0u; i < 4u; i++) {
    let row = row0 + i;
    if (row >= params.r) { return; }
    var line = c0;
    if (i == 1u) { line = c1; }
    if (i == 2u) { line = c2; }
    if (i == 3u) { line = c3; }
    for (var c = 0u; c < 4u; c++) {
      if (col0 + c < params.e) { states[state + row * params.e + col0 + c] = line[c]; }
      if (col0 + c == params.e) { states[state + params.r * params.e + row] = line[c]; }
    }
  }
}
