// out = gain (exp(scale (+-u - m) + t) + eps), or gain e^t (cos, sin)(scale u), of rows (m, t); 0 where t says that the row is
// left out. u [b, h, n, p], rows [b, h, n, 2], out [b, h, n, r]. One product per thread.
@group(0) @binding(1) var<storage, read> u: array<f32>;
@group(0) @binding(2) var<storage, read> rows: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.n * params.p;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let place = local_batch * params.n + item / params.p;
  let m = rows[params.rows_at + place * 2u];
  let t = rows[params.rows_at + place * 2u + 1u];
  let kept = t > -750.0;
  let y = u[params.u_at + local_batch * size + item];
  let to = params.out_at + place * params.r + item % params.p;
  if (SIDES == 2u) {
    let pair = params.gain * exp_accurate(t) * wave(params.scale * y);
    out[to] = select(0.0, pair.x, kept);
    out[to + params.p] = select(0.0, pair.y, kept);
    return;
  }
  out[to] = select(0.0, params.gain * (exp_accurate(params.scale * (y - m) + t) + params.eps), kept);
  if (SIDES == 1u) {
    out[to + params.p] = select(0.0, params.gain * (exp_accurate(params.scale * (-y - m) + t) + params.eps), kept);
  }
}
