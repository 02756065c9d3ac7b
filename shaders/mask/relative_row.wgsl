// The weights of one query per group of 256 threads, which share the keys: first all weights and their sum, then, unless
// RAW, each divided by it. A thread reads back only what it wrote itself. `product` comes from the kernel.
var<workgroup> totals: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let local_batch = group / params.c;
  let number = group % params.c;
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let row = rows[params.rows_at + number];
  let inside = min(row, params.n - 1u);
  let out_from = params.out_at + local_batch * params.n * params.c + number;
  let table_from = table_of(h);
  let key_mask_from = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h;
  let grid = whole_grid();
  let own = segment_of(inside);
  let row_is_global = row < params.globals;
  var at = vec3i();
  if (!row_is_global && row < params.n) { at = coordinates(grid, row); }

  var total = 0.0;
  for (var key = thread; key < params.n; key += 256u) {
    let global = row_is_global || key < params.globals;
    var mask = 1.0;
    if (!global) {
      let place = place_of(grid, at, coordinates(grid, key));
      mask = 0.0;
      if (in_support(grid, place) && key >= own.x && key < own.y) { mask = entry_at(grid, table_from, place); }
    }
    var weight = 0.0;
    if (!(mask == 0.0) && row < params.n && key_is_kept(key_mask_from, key)) {
      weight = mask * product(local_batch, inside, key, number);
    }
    total += weight;
    out[out_from + key * params.c] = weight;
  }
  if (RAW == 0u) {
    totals[thread] = total;
    for (var half = 128u; half > 0u; half /= 2u) {
      workgroupBarrier(); // the sums of the last level are there
      if (thread < half) { totals[thread] += totals[thread + half]; }
    }
    workgroupBarrier(); // the row's sum is there
    let sum = totals[0];
    let divisor = select(sum, 1.0, sum == 0.0);
    for (var key = thread; key < params.n; key += 256u) {
      let place = out_from + key * params.c;
      out[place] = out[place] / divisor;
    }
  }
}
