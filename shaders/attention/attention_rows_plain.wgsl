// A thread per query row and slice of 32 value columns, everything straight from storage: any shape, no workgroup
// memory. Keys come in fours, so that a coordinate of the query is loaded once for four pairs.
@group(0) @binding(1) var<storage, read> q: array<f32>; // [b, h, n, d]
@group(0) @binding(2) var<storage, read> k: array<f32>; // [b, h, m, d]
@group(0) @binding(3) var<storage, read> v: array<f32>; // [b, h, m, e]
@group(0) @binding(4) var<storage, read> lambda: array<f32>; // [h] or [1]
@group(0) @binding(5) var<storage, read> key_mask: array<u32>; // bytes [b, h, mm]
@group(0) @binding(6) var<storage, read> mask: array<u32>; // bytes [b, h, n, mm]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [b, h, n, p]

fn load_v(at: u32, col: u32) -> f32 {
  if (col >= params.e) { return 0.0; }
  return v[at + col];
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let slices = (params.e + 31u) / 32u;
  let row_groups = (params.n + 63u) / 64u;
  let local_batch = group / (slices * row_groups);
  let row = group / slices % row_groups * 64u + thread;
  let col0 = group % slices * 32u;
  if (row >= params.n) { return; }
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let q_from = params.q_at + (local_batch * params.n + row) * params.d;
  let k_from = params.k_at + local_batch * params.m * params.d;
  let v_from = params.v_at + local_batch * params.m * params.e;
  let key_mask_from = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h + params.key_from;
  let mask_from = params.mask_at + b * params.mask_b + h * params.mask_h + params.key_from;
  var bandwidth = 1.0;
  if (METRIC != 0u) { bandwidth = lambda[params.lambda_at + h % params.bandwidths]; }

  var values: array<vec4f, 8>;
  var shift = NO_KEY;
  var total = 0.0;
  for (var key = 0u; key < params.m; key += 4u) {
    // Keys past the end repeat the last one; their weights are 0.
    let keys = min(vec4u(key) + vec4u(0u, 1u, 2u, 3u), vec4u(params.m - 1u));
    let at = vec4u(k_from) + keys * params.d;
    var sums = vec4f();
    for (var c = 0u; c < params.d; c++) {
      sums += pair(vec4f(q[q_from + c]), vec4f(k[at.x + c], k[at.y + c], k[at.z + c], k[at.w + c]));
    }
    var kept = vec4u(key) + vec4u(0u, 1u, 2u, 3u) < vec4u(params.m);
    for (var t = 0u; t < 4u; t++) {
      kept[t] = kept[t] && key_is_kept(key_mask_from, keys[t]) && pair_is_kept(mask_from, row, keys[t]);
    }
    let exponents = select(vec4f(NO_KEY), exponent(sums, bandwidth), kept);
    let top = max(shift, max(max(exponents.x, exponents.y), max(exponents.z, exponents.w)));
    let rescale = exp_accurate(shift - top);
    let weights = select(vec4f(), exp4(exponents - vec4f(top)), kept);
    shift = top;
    total = total * rescale + ((weights.x + weights.y) + (weights.z + weights.w));
    for (var t = 0u; t < 8u; t++) { values[t] *= rescale; }
    for (var j = 0u; j < 4u; j++) {
      // A key without weight may hold anything, NaN included.
      if (weights[j] > 0.0) {
        let line = v_from + keys[j] * params.e;
        for (var t = 0u; t < 8u; t++) {
          let col = col0 + 4u * t;
          values[t] += weights[j] * vec4f(load_v(line, col), load_v(line, col + 1u), load_v(line, col + 2u), load_v(line, col + 3u));
        }
      }
    }
  }

  let at = params.out_at + (local_batch * params.n + row) * params.p;
  for (var t = 0u; t < 8u; t++) { store4(at, col0 + 4u * t, finished(values[t], shift, total)); }
  if (col0 == 0u) { store_state(at, shift, total); }
}
