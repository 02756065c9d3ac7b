// out[row, i] = x[row, 0] + ... + x[row, i]. One workgroup per row walks it in pieces of 256 elements, four to a
// thread; within a piece the threads' sums are scanned by doubling, and the piece's total is carried to the next.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

// Two halves: one is read while the other is written.
var<workgroup> sums: array<f32, 128>;

fn load(row: u32, i: u32) -> f32 {
  if (i < params.n) { return x[row + i]; }
  return 0.0;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let row = params.x_at + group * params.n;
  let out_row = params.out_at + group * params.n;
  var carry = 0.0;
  for (var piece = 0u; piece < params.n; piece += 256u) {
    let from_element = piece + 4u * thread;
    let a = load(row, from_element);
    let b = a + load(row, from_element + 1u);
    let c = b + load(row, from_element + 2u);
    let d = c + load(row, from_element + 3u);
    workgroupBarrier(); // the last piece's total has been read
    sums[thread] = d;
    var source = 0u;
    for (var step = 1u; step < 64u; step *= 2u) {
      workgroupBarrier(); // this level's sums are written
      var sum = sums[source + thread];
      if (thread >= step) { sum += sums[source + thread - step]; }
      sums[64u - source + thread] = sum;
      source = 64u - source;
    }
    workgroupBarrier(); // the last level is written
    var before = carry;
    if (thread > 0u) { before += sums[source + thread - 1u]; }
    carry += sums[source + 63u];
    if (from_element < params.n) { out[out_row + from_element] = before + a; }
    if (from_element + 1u < params.n) { out[out_row + from_element + 1u] = before + b; }
    if (from_element + 2u < params.n) { out[out_row + from_element + 2u] = before + c; }
    if (from_element + 3u < params.n) { out[out_row + from_element + 3u] = before + d; }
  }
}
