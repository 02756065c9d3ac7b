// Position codes put on tokens: every lane of a token's result is a sum over its dimensions. A thread makes LANES lanes of one token.
@group(0) @binding(1) var<storage, read> x: array<f32>; // [b, h, n, d]
@group(0) @binding(2) var<storage, read> code: array<Value>; // [b, h, m, r], m = d · n
@group(0) @binding(3) var<storage, read> constant: array<Value>; // [b, h, d, r]
@group(0) @binding(4) var<storage, read_write> out: array<Value>; // [b, h, n, r]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let lanes = params.r / LANES;
  let groups_per_batch = (params.n * lanes + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= params.n * lanes) { return; }
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let row = params.x_at + (local_batch * params.n + item / lanes) * params.d;
  let codes = (params.code_at + b * params.code_b + h * params.code_h) / LANES + item;
  var sum = Value();
  if (HAS_CONSTANT) {
    let constants = (params.constant_at + b * params.constant_b + h * params.constant_h) / LANES + item % lanes;
    for (var d = 0u; d < params.d; d++) {
      sum += x[row + d] * (code[codes + d * params.n * lanes] + constant[constants + d * lanes]);
    }
  } else {
    for (var d = 0u; d < params.d; d++) { sum += x[row + d] * code[codes + d * params.n * lanes]; }
  }
  out[params.out_at / LANES + local_batch * params.n * lanes + item] = sum;
}
