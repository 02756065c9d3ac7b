// 4 x 4 block per thread straight from storage, without workgroup memory: what is left where that fails, and what
// software drivers prefer when a shape cannot go through textures.
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> w: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_blocks = (params.p + 3u) / 4u;
  let row_blocks = (params.n + 3u) / 4u;
  let groups_per_batch = (row_blocks * col_blocks + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let block = group % groups_per_batch * 64u + thread;
  if (block >= row_blocks * col_blocks) { return; }
  let row0 = block / col_blocks * 4u;
  let col0 = block % col_blocks * 4u;
  let batch = params.batch_from + local_batch;
  let a_from = params.a_at + batch / params.h * params.a_b + batch % params.h * params.a_h;
  let w_from = params.w_at + batch / params.h * params.w_b + batch % params.h * params.w_h;
  let transpose_a = TRANSPOSE_A != 0u;
  let transpose_w = TRANSPOSE_W != 0u;
  let depth = select(params.ac, params.ar, transpose_a);
  // Rows and columns past the edge repeat the last one; their results are not stored.
  let rows = min(vec4u(row0) + vec4u(0u, 1u, 2u, 3u), vec4u(params.n - 1u));
  let cols = min(vec4u(col0) + vec4u(0u, 1u, 2u, 3u), vec4u(params.p - 1u));
  let a_step = select(1u, params.ac, transpose_a);
  let w_step = select(params.wc, 1u, transpose_w);
  var at_a = vec4u(a_from) + rows * select(params.ac, 1u, transpose_a);
  var at_w = vec4u(w_from) + cols * select(1u, params.wc, transpose_w);
  var c0 = vec4f(); var c1 = vec4f(); var c2 = vec4f(); var c3 = vec4f();
  for (var k = 0u; k < depth; k++) {
    let y = vec4f(w[at_w.x], w[at_w.y], w[at_w.z], w[at_w.w]);
    c0 += a[at_a.x] * y;
    c1 += a[at_a.y] * y;
    c2 += a[at_a.z] * y;
    c3 += a[at_a.w] * y;
    at_a += vec4u(a_step);
    at_w += vec4u(w_step);
  }
  let e = epilogue_of(local_batch);
  for (var r = 0u; r < 4u; r++) {
    var line = c0;
    if (r == 1u) { line = c1; }
    if (r == 2u) { line = c2; }
    if (r == 3u) { line = c3; }
    for (var c = 0u; c < 4u; c++) {
      let row = row0 + r;
      let col = col0 + c;
      if (row < params.n && col < params.p) {
        out[e.out_from + row * e.columns + col] = epilogue(e, row, col, line[c]);
      }
    }
  }
}
