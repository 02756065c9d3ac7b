// 4 x 4 block of A^T W over one chunk of rows per thread, straight from storage.
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> w: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_blocks = (params.p + 3u) / 4u;
  let row_blocks = (params.m + 3u) / 4u;
  let groups_per_place = (row_blocks * col_blocks + 63u) / 64u;
  let place = group / groups_per_place; // local head and chunk
  let block = group % groups_per_place * 64u + thread;
  if (block >= row_blocks * col_blocks) { return; }
  let row0 = block / col_blocks * 4u;
  let col0 = block % col_blocks * 4u;
  let local_batch = place / params.c;
  let first = place % params.c * params.rows;
  let end = min(first + params.rows, params.n);
  // Rows and columns past the edge repeat the last one; their results are not stored.
  let rows = min(vec4u(row0) + vec4u(0u, 1u, 2u, 3u), vec4u(params.m - 1u));
  let cols = min(vec4u(col0) + vec4u(0u, 1u, 2u, 3u), vec4u(params.p - 1u));
  var at_a = vec4u(params.a_at + (local_batch * params.n + first) * params.m) + rows;
  var at_w = vec4u(params.w_at + (local_batch * params.n + first) * params.p) + cols;
  var c0 = vec4f(); var c1 = vec4f(); var c2 = vec4f(); var c3 = vec4f();
  for (var i = first; i < end; i++) {
    let line = vec4f(w[at_w.x], w[at_w.y], w[at_w.z], w[at_w.w]);
    c0 += a[at_a.x] * line;
    c1 += a[at_a.y] * line;
    c2 += a[at_a.z] * line;
    c3 += a[at_a.w] * line;
    at_a += vec4u(params.m);
    at_w += vec4u(params.p);
  }
  for (var r = 0u; r < 4u; r++) {
    var line = c0;
    if (r == 1u) { line = c1; }
    if (r == 2u) { line = c2; }
    if (r == 3u) { line = c3; }
    for (var c = 0u; c < 4u; c++) {
      if (row0 + r < params.m && col0 + c < params.p) {
        out[params.out_at + (place * params.m + row0 + r) * params.p + col0 + c] = line[c];
      }
    }
  }
}
