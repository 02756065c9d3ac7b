// 32 features x 32 value columns of one chunk's state, for GPUs: 64 threads, each a 4 x 4 block in registers, keys in slices of 32
// that are weighed while they are brought to workgroup memory.
@group(0) @binding(1) var<storage, read> k: array<f32>;
@group(0) @binding(2) var<storage, read> v: array<f32>;
@group(0) @binding(3) var<storage, read> powers: array<f32>;
@group(0) @binding(4) var<storage, read> key_mask: array<u32>;
@group(0) @binding(5) var<storage, read> reach: array<u32>;
@group(0) @binding(6) var<storage, read_write> states: array<f32>;

var<workgroup> tile_k: array<vec4f, 256>;
var<workgroup> tile_v: array<vec4f, 256>;

fn load_k(at: u32, row: u32) -> f32 {
  if (row >= params.r) { return 0.0; }
  return k[at + row];
}

fn load_v(at: u32, col: u32) -> f32 {
  if (col >= params.e) { return 0.0; }
  return v[at + col];
}

fn store(state: u32, row: u32, col: u32, line: vec4f, sum: f32) {
  if (row >= params.r) { return; }
  for (var c = 0u; c < 4u; c++) {
    if (col + c < params.e) { states[state + row * params.e + col + c] = line[c]; }
  }
  if (col == 0u) { states[state + params.r * params.e + row] = sum; }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_tiles = (params.e + 31u) / 32u;
  let row_tiles = (params.r + 31u) / 32u;
  let place = group / (row_tiles * col_tiles); // local head, chunk and side
  let row0 = group / col_tiles % row_tiles * 32u;
  let col0 = group % col_tiles * 32u;
  let side = place % (1u + TWO_SIDED);
  let chunk = place / (1u + TWO_SIDED) % params.c;
  let local_batch = place / (1u + TWO_SIDED) / params.c;
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
  let k_from = params.k_at + local_batch * params.n * params.r;
  let v_from = params.v_at + local_batch * params.n * params.e;
  let ty = thread / 8u;
  let tx = thread % 8u;
  var c0 = vec4f(); var c1 = vec4f(); var c2 = vec4f(); var c3 = vec4f();
  var sums = vec4f();
  for (var key0 = first; key0 < end; key0 += 32u) {
    for (var t = thread; t < 256u; t += 64u) {
      let j = key0 + t / 8u;
      let row = row0 + 4u * (t % 8u);
      let col = col0 + 4u * (t % 8u);
      var x = vec4f();
      var y = vec4f();
      if (j < end) {
        let distance = select(edge - j, j - edge, side == 1u);
        if (distance < seen_there && key_counts(mask_from, reach_from, j)) {
          let at_k = k_from + j * params.r;
          let at_v = v_from + j * params.e;
          x = power(powers_from, distance)
            * vec4f(load_k(at_k, row), load_k(at_k, row + 1u), load_k(at_k, row + 2u), load_k(at_k, row + 3u));
          y = vec4f(load_v(at_v, col), load_v(at_v, col + 1u), load_v(at_v, col + 2u), load_v(at_v, col + 3u));
        }
      }
      tile_k[t] = x;
      tile_v[t] = y;
    }
    workgroupBarrier(); // both slices are complete before anyone multiplies
    for (var j = 0u; j < 32u; j++) {
      let x = tile_k[j * 8u + ty];
      let y = tile_v[j * 8u + tx];
      c0 += x.x * y;
      c1 += x.y * y;
      c2 += x.z * y;
      c3 += x.w * y;
      sums += x;
    }
    workgroupBarrier(); // nobody overwrites a slice that others still read
  }
  let state = params.states_at + (local_batch * params.c + chunk) * params.s + side * params.r * (params.e + 1u);
  let row = row0 + 4u * ty;
  let col = col0 + 4u * tx;
  store(state, row, col, c0, sums.x);
  store(state, row + 1u, col, c1, sums.y);
  store(state, row + 2u, col, c2, sums.z);
  store(state, row + 3u, col, c3, sums.w);
}
