// out[g] = max over the kept rows of chunk or segment g of x[i, COLUMN]; EMPTY where there is none. x [b, h, n, w], out
// [b, h, g]. One workgroup per group of rows: its threads take rows in turn, then one of them ends the 64 maxima.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> key_mask: array<u32>;
@group(0) @binding(3) var<storage, read> starts: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

const EMPTY: f32 = -3e38;
var<workgroup> part: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let local_batch = group / params.g;
  let g = group % params.g;
  let b = (params.batch_from + local_batch) / params.h;
  let h = (params.batch_from + local_batch) % params.h;
  var first = g * params.rows;
  var end = min(first + params.rows, params.n);
  if (HAS_STARTS) {
    let at = params.starts_at + b * params.starts_b + h * params.starts_h + g;
    first = min(starts[at], params.n);
    end = min(starts[at + 1u], params.n);
  }
  var largest = EMPTY;
  for (var row = first + thread; row < end; row += 64u) {
    var kept = true;
    if (HAS_KEY_MASK) {
      let at = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h + row;
      kept = byte_of(key_mask[at >> 2u], at) != 0u;
    }
    let value = x[params.x_at + (local_batch * params.n + row) * params.w + COLUMN];
    if (kept) { largest = max(largest, value); }
  }
  part[thread] = largest;
  // The first thread reads what all wrote.
  workgroupBarrier();
  if (thread == 0u) {
    for (var t = 1u; t < 64u; t++) { largest = max(largest, part[t]); }
    out[params.out_at + local_batch * params.g + g] = largest;
  }
}
