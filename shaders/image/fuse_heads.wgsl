// Several heads' rows as one: mean, largest, smallest or one of them, less the same of another; logarithm if asked.
@group(0) @binding(1) var<storage, read> x: array<f32>; // [heads, n]
@group(0) @binding(2) var<storage, read> less: array<f32>; // [heads, n]
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // [n]

const LOG10_OF_2: f32 = 0.30103;

// By the bits: drivers may take a NaN for an ordinary number in comparisons.
fn is_finite(value: f32) -> bool {
  return (bitcast<u32>(value) & 0x7f800000u) != 0x7f800000u;
}

// Takes one more head in; what is not finite stays.
fn taken_in(sum: f32, value: f32) -> f32 {
  if (!is_finite(sum)) { return sum; }
  if (!is_finite(value)) { return value; }
  if (params.mode == 0u) { return sum + value; }
  if (params.mode == 1u) { return max(sum, value); }
  return min(sum, value);
}

fn ended(sum: f32) -> f32 {
  if (params.mode == 0u && is_finite(sum)) { return sum / f32(params.heads); }
  return sum;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let i = group * 64u + thread;
  if (i >= params.n) { return; }
  var first = 0u;
  if (params.mode == 3u) { first = params.head; }
  var fused = x[params.x_at + first * params.n + i];
  var other = 0.0;
  if (HAS_LESS) { other = less[params.less_at + first * params.n + i]; }
  if (params.mode != 3u) {
    for (var head = 1u; head < params.heads; head++) {
      fused = taken_in(fused, x[params.x_at + head * params.n + i]);
      if (HAS_LESS) { other = taken_in(other, less[params.less_at + head * params.n + i]); }
    }
    fused = ended(fused);
    other = ended(other);
  }
  var y = fused;
  if (HAS_LESS) { y = fused - other; }
  if (params.log == 1u && is_finite(y)) { y = log2(max(abs(y), params.least)) * LOG10_OF_2; }
  out[params.out_at + i] = y;
}
