// The start of a Newton-Schulz iteration, one workgroup per matrix: row and column sums of |A|, the start X0 that MODE
// asks for, and A with rows and columns of zeros appended where the products want another side. Coefficients are each
// matrix's own: a maximum over the batch would let one hard head slow or spoil the others.
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read_write> a_padded: array<f32>;
@group(0) @binding(3) var<storage, read_write> x0: array<f32>;
@group(0) @binding(4) var<storage, read_write> bound: array<f32>;

var<workgroup> rows: array<f32, 256>;
var<workgroup> cols: array<f32, 256>;
var<workgroup> bare_rows: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let m = params.m;
  let s = params.s;
  let from_a = params.a_at + group * m * m;
  var row_max = 0.0;
  var col_max = 0.0;
  var bare_max = 0.0; // the same for W = A - epsilon I
  for (var i = thread; i < m; i += 256u) {
    var row_sum = 0.0;
    var col_sum = 0.0;
    for (var k = 0u; k < m; k++) {
      row_sum += abs(a[from_a + i * m + k]);
      if (MODE == 3u || MODE == 4u) { col_sum += abs(a[from_a + k * m + i]); }
    }
    let diagonal = a[from_a + i * m + i];
    row_max = max(row_max, row_sum);
    col_max = max(col_max, col_sum);
    bare_max = max(bare_max, row_sum - abs(diagonal) + abs(diagonal - params.epsilon));
  }
  rows[thread] = row_max;
  cols[thread] = col_max;
  bare_rows[thread] = bare_max;
  for (var half = 128u; half > 0u; half /= 2u) {
    workgroupBarrier(); // the maxima of the level above are written
    if (thread < half) {
      rows[thread] = max(rows[thread], rows[thread + half]);
      cols[thread] = max(cols[thread], cols[thread + half]);
      bare_rows[thread] = max(bare_rows[thread], bare_rows[thread + half]);
    }
  }
  workgroupBarrier(); // the maxima are complete
  let largest_row = rows[0];
  var factor = 2.0 / (largest_row + params.epsilon);
  if (MODE == 1u) { factor = 1.8 / (bare_rows[0] * bare_rows[0]); }
  if (MODE == 2u) { factor = 1.8 / (largest_row * largest_row); }
  if (MODE == 3u || MODE == 4u) { factor = 1.0 / (largest_row * cols[0]); }
  if (MODE == 5u) { factor = 1.0 / largest_row; }
  for (var at = thread; at < s * s; at += 256u) {
    let i = at / s;
    let j = at % s;
    let inside = i < m && j < m;
    var start = 0.0;
    if (MODE == 0u || MODE == 5u) {
      start = select(0.0, factor, i == j && inside);
    } else if (inside) {
      start = factor * a[from_a + select(i * m + j, j * m + i, MODE == 3u || MODE == 4u)];
    }
    x0[params.x0_at + group * s * s + at] = start;
    if (HAS_A_PADDED) {
      var value = 0.0;
      if (inside) { value = a[from_a + i * m + j]; }
      a_padded[params.a_padded_at + group * s * s + at] = value;
    }
  }
  if (thread == 0u) {
    bound[params.bound_at + 2u * group] = largest_row;
    bound[params.bound_at + 2u * group + 1u] = f32(params.steps);
  }
}
