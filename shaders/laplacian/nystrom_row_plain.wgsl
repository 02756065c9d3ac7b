// Row of the approximate attention matrix for each of r queries, one thread per key: no n x m matrix is ever stored.
// The weights of a query are m numbers and, at place m, the constant that its row is shifted by.
@group(0) @binding(1) var<storage, read> k: array<f32>;
@group(0) @binding(2) var<storage, read> landmarks: array<f32>;
@group(0) @binding(3) var<storage, read> weights: array<f32>;
@group(0) @binding(4) var<storage, read> lambda: array<f32>;
@group(0) @binding(5) var<storage, read> scale: array<f32>;
@group(0) @binding(6) var<storage, read> keep: array<u32>;
@group(0) @binding(7) var<storage, read> share: array<f32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

fn is_kept(batch: u32, key: u32) -> bool {
  if (!HAS_KEEP) { return true; }
  let at = params.keep_at + batch / params.h * params.keep_b + batch % params.h * params.keep_h + key;
  return byte_of(keep[at >> 2u], at) != 0u;
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
  let bandwidth = bandwidth_of(batch % params.h);
  let k_start = params.k_at + (local_batch * params.n + key) * params.d;
  let w_start = params.weights_at + (local_batch * params.r + query) * params.mw;
  var sum = weights[w_start + params.m];
  for (var l = 0u; l < params.m; l++) {
    let l_start = params.landmarks_at + (local_batch * params.m + l) * params.d;
    var distance = 0.0;
    for (var c = 0u; c < params.d; c++) { distance += gap1(k[k_start + c], landmarks[l_start + c]); }
    sum += weights[w_start + l] * finish(distance, bandwidth);
  }
  if (HAS_SCALE) { sum *= scale[params.scale_at + local_batch * params.n + key]; }
  if (HAS_SHARE) { sum += params.constant * share[params.share_at + local_batch]; } else { sum += params.constant; }
  out[params.out_at + (local_batch * params.n + key) * params.r + query] = select(0.0, sum, is_kept(batch, key));
}
