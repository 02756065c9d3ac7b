// A thread per key, everything straight from storage: any shape, no workgroup memory. Queries come in fours.
@group(0) @binding(1) var<storage, read> q: array<f32>; // [b, h, n, d]
@group(0) @binding(2) var<storage, read> k: array<f32>; // [b, h, m, d]
@group(0) @binding(3) var<storage, read> lambda: array<f32>; // [h] or [1]
@group(0) @binding(4) var<storage, read> query_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(5) var<storage, read> row_shift: array<f32>; // [b, h, n, w]
@group(0) @binding(6) var<storage, read> before: array<f32>; // [b, h, m, 3]
@group(0) @binding(7) var<storage, read_write> moments: array<f32>; // [b, h, m, p]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let key_groups = (params.m + 63u) / 64u;
  let local_batch = group / key_groups;
  let key = group % key_groups * 64u + thread;
  if (key >= params.m) { return; }
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let q_from = params.q_at + local_batch * params.n * params.d;
  let k_from = params.k_at + (local_batch * params.m + key) * params.d;
  let query_mask_from = params.query_mask_at + b * params.query_mask_b + h * params.query_mask_h;
  let row_shift_from = params.row_shift_at + local_batch * params.n * params.w;
  var bandwidth = 1.0;
  if (METRIC != 0u) { bandwidth = lambda[params.lambda_at + h % params.bandwidths]; }

  var mean = 0.0;
  var squares = 0.0;
  var taken = 0.0;
  for (var query = 0u; query < params.n; query += 4u) {
    let queries = min(vec4u(query) + vec4u(0u, 1u, 2u, 3u), vec4u(params.n - 1u));
    let at = vec4u(q_from) + queries * params.d;
    var sums = vec4f();
    for (var c = 0u; c < params.d; c++) {
      sums += pair(vec4f(q[at.x + c], q[at.y + c], q[at.z + c], q[at.w + c]), vec4f(k[k_from + c]));
    }
    let values = exp4(exponent(sums, bandwidth));
    var first_sum = 0.0;
    var square_sum = 0.0;
    var block = 0.0;
    for (var t = 0u; t < 4u; t++) {
      if (query + t < params.n && query_is_kept(query_mask_from, query + t)) {
        let x = values[t] - shift_of(row_shift_from, query + t);
        if (taken + block == 0.0) { mean = x; }
        first_sum += x - mean;
        square_sum += (x - mean) * (x - mean);
        block += 1.0;
      }
    }
    taken += block;
    let step = first_sum / max(taken, 1.0);
    mean += step;
    squares += square_sum - step * first_sum;
  }
  store(local_batch, key, mean, squares, taken);
}
