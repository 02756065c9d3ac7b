// Sixteen words per thread from anywhere in a power of two of them. x [b, h, m], out [b, h, n].
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

// A place that looks random: neighbours read words that are far apart.
fn scattered(number: u32) -> u32 {
  var z = (number ^ (number >> 16u)) * 0x7feb352du;
  z = (z ^ (z >> 15u)) * 0x846ca68bu;
  return z ^ (z >> 16u);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 63u) / 64u;
  let place = group % groups_per_batch * 64u + thread;
  if (place >= params.n) { return; }
  let batch = group / groups_per_batch;
  let x_from = params.x_at + batch * params.m;
  let last = params.m - 1u;
  var sum = 0.0;
  for (var round = 0u; round < ROUNDS; round++) {
    let number = 4u * (ROUNDS * place + round);
    let first = x[x_from + (scattered(number) & last)] + x[x_from + (scattered(number + 1u) & last)];
    sum += first + (x[x_from + (scattered(number + 2u) & last)] + x[x_from + (scattered(number + 3u) & last)]);
  }
  out[params.out_at + batch * params.n + place] = sum;
}
