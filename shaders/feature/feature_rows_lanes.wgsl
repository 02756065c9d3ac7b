// rows[i] = (m, t) as in feature_rows_plain.wgsl. 16 threads share a row, so that neighbours read neighbouring words, and
// one of them ends it.
@group(0) @binding(1) var<storage, read> u: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> rows: array<f32>;

var<workgroup> largest: array<f32, 256>;
var<workgroup> norms: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 15u) / 16u;
  let local_batch = group / groups_per_batch;
  let row = group % groups_per_batch * 16u + thread / 16u;
  let lane = thread % 16u;
  // Rows past the end repeat the last one; nobody stores them.
  let place = local_batch * params.n + min(row, params.n - 1u);
  var m = 0.0;
  if (SIDES != 2u) {
    let begin = params.u_at + place * params.p;
    // Lanes without a column of their own begin with the first one.
    m = u[begin + select(0u, lane, lane < params.p)];
    if (SIDES == 1u) { m = abs(m); }
    for (var c = lane + 16u; c < params.p; c += 16u) {
      var y = u[begin + c];
      if (SIDES == 1u) { y = abs(y); }
      m = max(m, y);
    }
  }
  var norm = 0.0;
  if (HAS_X) {
    let begin = params.x_at + place * params.d;
    for (var c = lane; c < params.d; c += 16u) {
      let y = params.half * x[begin + c];
      norm += y * y;
    }
  }
  largest[thread] = m;
  norms[thread] = norm;
  // The row's first lane reads what its 16 lanes wrote.
  workgroupBarrier();
  if (lane != 0u || row >= params.n) { return; }
  for (var l = 1u; l < 16u; l++) {
    m = max(m, largest[thread + l]);
    norm += norms[thread + l];
  }
  var t = max(-norm, -500.0);
  if (ENDS == 0u) { t = select(params.scale * m - norm, norm, SIDES == 2u); }
  if (ENDS == 1u) { t = 0.0; }
  rows[params.rows_at + place * 2u] = m;
  rows[params.rows_at + place * 2u + 1u] = clamp(t, -1e38, 1e38);
}
