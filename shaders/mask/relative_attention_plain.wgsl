// A thread per query row and slice of 32 value columns, everything straight from storage: any shape, no workgroup memory.
@group(0) @binding(1) var<storage, read> q: array<f32>; // [b, h, n, r]
@group(0) @binding(2) var<storage, read> k: array<f32>; // [b, h, n, r]
@group(0) @binding(3) var<storage, read> v: array<f32>; // [b, h, n, e]
@group(0) @binding(4) var<storage, read> table: array<f32>; // [h or 1, t]
@group(0) @binding(5) var<storage, read> key_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(6) var<storage, read> query_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(7) var<storage, read> segment: array<u32>; // [n, 2]
@group(0) @binding(8) var<storage, read_write> out: array<f32>; // [b, h, n, p]

// Without branches: the last feature or value stands for those past the end.
fn load_q(at: u32, c: u32) -> f32 { return select(0.0, q[at + min(c, params.r - 1u)], c < params.r); }
fn load_k(at: u32, c: u32) -> f32 { return select(0.0, k[at + min(c, params.r - 1u)], c < params.r); }
fn load_v(at: u32, col: u32) -> f32 { return v[at + min(col, params.e - 1u)]; }

fn values(at: u32, col: u32) -> vec4f {
  return vec4f(load_v(at, col), load_v(at, col + 1u), load_v(at, col + 2u), load_v(at, col + 3u));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let slices = (params.e + 31u) / 32u;
  let row_groups = (params.n + 63u) / 64u;
  let local_batch = group / (slices * row_groups);
  let row = group / slices % row_groups * 64u + thread;
  let col0 = group % slices * 32u;
  if (row >= params.n) { return; }
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let q_from = params.q_at + (local_batch * params.n + row) * params.r;
  let k_from = params.k_at + local_batch * params.n * params.r;
  let v_from = params.v_at + local_batch * params.n * params.e;
  let table_from = table_of(h);
  let key_mask_from = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h;
  let query_mask_from = params.query_mask_at + b * params.query_mask_b + h * params.query_mask_h;
  let asked = row_is_asked(query_mask_from, row);

  var y0 = vec4f(); var y1 = vec4f(); var y2 = vec4f(); var y3 = vec4f();
  var y4 = vec4f(); var y5 = vec4f(); var y6 = vec4f(); var y7 = vec4f();
  var total = 0.0;
  let grid = whole_grid();
  let visits = visits_of(grid, row);
  for (var step = 0u; step < visits.total; step++) {
    let seen = visit(grid, visits, table_from, step);
    if (!(seen.weight == 0.0) && key_is_kept(key_mask_from, seen.key)) {
      let at = k_from + seen.key * params.r;
      var product = 0.0;
      for (var c = 0u; c < params.r; c += 4u) {
        product += load_q(q_from, c) * load_k(at, c) + load_q(q_from, c + 1u) * load_k(at, c + 1u)
          + load_q(q_from, c + 2u) * load_k(at, c + 2u) + load_q(q_from, c + 3u) * load_k(at, c + 3u);
      }
      let weight = seen.weight * product;
      total += weight;
      let line = v_from + seen.key * params.e;
      y0 += weight * values(line, col0);
      y1 += weight * values(line, col0 + 4u);
      y2 += weight * values(line, col0 + 8u);
      y3 += weight * values(line, col0 + 12u);
      y4 += weight * values(line, col0 + 16u);
      y5 += weight * values(line, col0 + 20u);
      y6 += weight * values(line, col0 + 24u);
      y7 += weight * values(line, col0 + 28u);
    }
  }

  let at = params.out_at + (local_batch * params.n + row) * params.p;
  var y = array<vec4f, 8>(y0, y1, y2, y3, y4, y5, y6, y7);
  for (var t = 0u; t < 8u; t++) { store4(at, col0 + 4u * t, finished(y[t], total, asked)); }
  if (col0 == 0u) { store_total(at, total, asked); }
}
