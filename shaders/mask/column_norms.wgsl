// The Euclidean norm of each column over the kept rows of a chunk, one thread per chunk and column. Numbers are divided by
// the largest before they are squared, so that squares neither overflow nor vanish.
@group(0) @binding(1) var<storage, read> x: array<f32>; // [b, h, n, r]
@group(0) @binding(2) var<storage, read> key_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // [b, h, c, r]

fn kept(start: u32, row: u32) -> bool {
  var found = true;
  if (HAS_KEY_MASK) {
    let at = start + row;
    found = ((key_mask[at >> 2u] >> ((at & 3u) * 8u)) & 0xffu) != 0u;
  }
  return found;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let col_blocks = (params.r + 63u) / 64u;
  let local_batch = group / (params.c * col_blocks);
  let chunk = group / col_blocks % params.c;
  let col = group % col_blocks * 64u + thread;
  if (col >= params.r) { return; }
  let batch = params.batch_from + local_batch;
  let mask_from = params.key_mask_at + batch / params.h * params.key_mask_b + batch % params.h * params.key_mask_h;
  let start = params.x_at + local_batch * params.n * params.r + col;
  let first = chunk * params.rows;
  let end = min(first + params.rows, params.n);
  var largest = 0.0;
  for (var i = first; i < end; i++) {
    if (kept(mask_from, i)) { largest = max(largest, abs(x[start + i * params.r])); }
  }
  let divisor = select(largest, 1.0, largest == 0.0);
  var sum = 0.0;
  for (var i = first; i < end; i++) {
    if (kept(mask_from, i)) {
      let part = x[start + i * params.r] / divisor;
      sum += part * part;
    }
  }
  out[params.out_at + (local_batch * params.c + chunk) * params.r + col] = largest * sqrt(sum);
}
