// Joins the states of a row over two sets of keys, or ends a row, one element per thread.
@group(0) @binding(1) var<storage, read> left: array<f32>; // [b, h, n, s]
@group(0) @binding(2) var<storage, read> right: array<f32>; // [b, h, n, s]
@group(0) @binding(3) var<storage, read> query_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(4) var<storage, read_write> out: array<f32>; // [b, h, n, p]
@group(0) @binding(5) var<storage, read_write> log_sum: array<f32>; // [b, h, n]

// Largest exponent of a row without keys in attention_rows; real ones stay within +-1e38.
const NO_KEY: f32 = -2.0e38;
// The most negative f32, rounded towards 0: with one digit more, 3.40282347e38, browsers refuse it as too large.
const EMPTY: f32 = -3.4028234e38;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n * params.p + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let element = group % groups_per_batch * 64u + thread;
  if (element >= params.n * params.p) { return; }
  let row = element / params.p;
  let col = element % params.p;
  let e = params.s - 2u;
  let line = (local_batch * params.n + row) * params.s;

  var shift = left[params.left_at + line + e];
  var total = left[params.left_at + line + e + 1u];
  var x = left[params.left_at + line + col];
  if (HAS_RIGHT) {
    let other = right[params.right_at + line + e];
    let top = max(shift, other);
    let keep_left = exp_accurate(shift - top);
    let keep_right = exp_accurate(other - top);
    shift = top;
    total = total * keep_left + right[params.right_at + line + e + 1u] * keep_right;
    x = x * keep_left + right[params.right_at + line + col] * keep_right;
  }
  if (HAS_QUERY_MASK) {
    let batch = params.batch_from + local_batch;
    let at = params.query_mask_at + batch / params.h * params.query_mask_b + batch % params.h * params.query_mask_h + row;
    if (((query_mask[at >> 2u] >> ((at & 3u) * 8u)) & 0xffu) == 0u) {
      shift = NO_KEY;
      total = 0.0;
      x = 0.0;
    }
  }
  if (params.p < params.s) {
    // The sum of a row with keys is at least 1.
    if (NORMALISE == 0u) { x = x / max(total, 1.0); } else { x = x * exp_accurate(shift); }
  } else if (col == e) {
    x = shift;
  } else if (col == e + 1u) {
    x = total;
  }
  out[params.out_at + (local_batch * params.n + row) * params.p + col] = x;
  if (HAS_LOG_SUM && col == 0u) {
    log_sum[params.log_sum_at + local_batch * params.n + row] = select(EMPTY, shift + log(max(total, 1.0)), total > 0.0);
  }
}
