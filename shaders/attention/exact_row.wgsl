// Row of the exact attention matrix for each of r queries, one thread per key: e^(score - log_sum), where the score is
// -distance / lambda or the scaled dot product, and log_sum is 0 where rows are not normalised.
@group(0) @binding(1) var<storage, read> queries: array<f32>;
@group(0) @binding(2) var<storage, read> k: array<f32>;
@group(0) @binding(3) var<storage, read> lambda: array<f32>;
@group(0) @binding(4) var<storage, read> log_sum: array<f32>;
@group(0) @binding(5) var<storage, read> keep: array<u32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;

fn term(x: f32, y: f32) -> f32 {
  if (METRIC == 0u) { return x * y; }
  let t = x - y;
  if (METRIC == 1u) { return abs(t); }
  return t * t;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  // Queries are in the grid, not in a loop: llvmpipe cuts long loops short.
  let key_groups = (params.n + 63u) / 64u;
  let local_batch = group / (key_groups * params.r);
  let query = group / key_groups % params.r;
  let key = group % key_groups * 64u + thread;
  if (key >= params.n) { return; }
  let batch = params.batch_from + local_batch;
  var kept = true;
  if (HAS_KEEP) {
    let at = params.keep_at + batch / params.h * params.keep_b + batch % params.h * params.keep_h + key;
    kept = byte_of(keep[at >> 2u], at) != 0u;
  }
  var factor = params.scale;
  if (METRIC != 0u) { factor = -1.0 / lambda[params.lambda_at + batch % params.h]; }
  let k_start = params.k_at + (local_batch * params.n + key) * params.d;
  let q_start = params.queries_at + (local_batch * params.r + query) * params.d;
  var sum = 0.0;
  for (var c = 0u; c < params.d; c++) { sum += term(queries[q_start + c], k[k_start + c]); }
  var score = sum * factor;
  if (HAS_LOG_SUM) { score -= log_sum[params.log_sum_at + local_batch * params.r + query]; }
  out[params.out_at + (local_batch * params.n + key) * params.r + query] = select(0.0, exp_accurate(score), kept);
}
