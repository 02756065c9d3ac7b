// One thread walks a line of the axis forth and back; neighbouring threads walk neighbouring lines.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> decay: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let lines = params.o * params.m;
  let groups_per_batch = (lines + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let line = group % groups_per_batch * 64u + thread;
  if (line >= lines) { return; }
  let batch = params.batch_from + local_batch;
  let gamma = decay[params.decay_at + batch % params.h % params.heads];
  let from_word = (local_batch * params.o + line / params.m) * params.n * params.m + line % params.m;
  var at = params.x_at + from_word;
  var to = params.out_at + from_word;
  var run = 0.0;
  for (var i = 0u; i < params.n; i++) {
    run = gamma * run + x[at];
    out[to] = run;
    at += params.m;
    to += params.m;
  }
  run = 0.0;
  for (var i = 0u; i < params.n; i++) {
    at -= params.m;
    to -= params.m;
    run *= gamma;
    out[to] += run;
    run += x[at];
  }
}
