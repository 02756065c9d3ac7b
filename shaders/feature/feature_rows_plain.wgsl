// rows[i] = (m, t): m the row's largest u or |u|, t = scale m - |half x|^2, 0 or -|half x|^2. One thread per row, straight
// from storage. u [b, h, n, p], x [b, h, n, d], rows [b, h, n, 2].
@group(0) @binding(1) var<storage, read> u: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> rows: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let row = group % groups_per_batch * 64u + thread;
  if (row >= params.n) { return; }
  let place = local_batch * params.n + row;
  var m = 0.0;
  if (SIDES != 2u) {
    let begin = params.u_at + place * params.p;
    m = u[begin];
    if (SIDES == 1u) { m = abs(m); }
    for (var c = 1u; c < params.p; c++) {
      var y = u[begin + c];
      if (SIDES == 1u) { y = abs(y); }
      m = max(m, y);
    }
  }
  var norm = 0.0;
  if (HAS_X) {
    let begin = params.x_at + place * params.d;
    for (var c = 0u; c < params.d; c++) {
      let y = params.half * x[begin + c];
      norm += y * y;
    }
  }
  var t = max(-norm, -500.0);
  if (ENDS == 0u) { t = select(params.scale * m - norm, norm, SIDES == 2u); }
  if (ENDS == 1u) { t = 0.0; }
  rows[params.rows_at + place * 2u] = m;
  rows[params.rows_at + place * 2u + 1u] = clamp(t, -1e38, 1e38);
}
