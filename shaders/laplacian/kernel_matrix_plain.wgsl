// 4 rows x 4 landmarks per thread straight from storage: any shape, no workgroup memory.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read> lambda: array<f32>;
@group(0) @binding(4) var<storage, read> x_keep: array<u32>;
@group(0) @binding(5) var<storage, read> y_keep: array<u32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_blocks = (params.m + 3u) / 4u;
  let row_blocks = (params.n + 3u) / 4u;
  let groups_per_batch = (row_blocks * col_blocks + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let block = group % groups_per_batch * 64u + thread;
  if (block >= row_blocks * col_blocks) { return; }
  let row0 = block / col_blocks * 4u;
  let col0 = block % col_blocks * 4u;
  // Rows and columns past the edge repeat the last one; their results are not stored.
  let rows = min(vec4u(row0) + vec4u(0u, 1u, 2u, 3u), vec4u(params.n - 1u));
  let cols = min(vec4u(col0) + vec4u(0u, 1u, 2u, 3u), vec4u(params.m - 1u));
  var at_x = vec4u(params.x_at + local_batch * params.n * params.d) + rows * params.d;
  var at_y = vec4u(params.y_at + local_batch * params.m * params.d) + cols * params.d;
  var c0 = vec4f(); var c1 = vec4f(); var c2 = vec4f(); var c3 = vec4f();
  for (var k = 0u; k < params.d; k++) {
    let line = vec4f(y[at_y.x], y[at_y.y], y[at_y.z], y[at_y.w]);
    c0 += gap4(vec4f(x[at_x.x]), line);
    c1 += gap4(vec4f(x[at_x.y]), line);
    c2 += gap4(vec4f(x[at_x.z]), line);
    c3 += gap4(vec4f(x[at_x.w]), line);
    at_x += vec4u(1u);
    at_y += vec4u(1u);
  }
  let batch = params.batch_from + local_batch;
  let bandwidth = bandwidth_of(batch % params.h);
  for (var r = 0u; r < 4u; r++) {
    var line = c0;
    if (r == 1u) { line = c1; }
    if (r == 2u) { line = c2; }
    if (r == 3u) { line = c3; }
    for (var c = 0u; c < 4u; c++) {
      let row = row0 + r;
      let col = col0 + c;
      if (row < params.n && col < params.m) {
        out[params.out_at + (local_batch * params.n + row) * params.m + col] = entry(batch, row, col, line[c], bandwidth);
      }
    }
  }
}
