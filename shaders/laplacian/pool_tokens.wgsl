// out[l, c] = mean of coordinate c over the kept tokens of cell l. A workgroup takes one landmark and four coordinates:
// sixteen threads share a coordinate and every sixteenth token is theirs, so neighbouring threads read neighbouring words
// and no loop is longer than a sixteenth of the cell.
@group(0) @binding(1) var<storage, read> k: array<f32>;
@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(3) var<storage, read> cells: array<u32>;
@group(0) @binding(4) var<storage, read> keep: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
@group(0) @binding(6) var<storage, read_write> valid: array<u32>;

const LANES: u32 = 16u;
var<workgroup> sums: array<f32, 64>;
var<workgroup> members: array<u32, 64>;

fn is_kept(batch: u32, token: u32) -> bool {
  if (!HAS_KEEP) { return true; }
  let at = params.keep_at + batch / params.h * params.keep_b + batch % params.h * params.keep_h + token;
  return byte_of(keep[at >> 2u], at) != 0u;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let quads = (params.d + 3u) / 4u;
  let local_batch = group / (params.m * quads);
  let landmark = group / quads % params.m;
  let c = group % quads * 4u + thread % 4u;
  let lane = thread / 4u;
  let batch = params.batch_from + local_batch;
  let cell = params.cells_at + 5u * landmark;
  let of_queries = HAS_Q && cells[cell] == 1u;
  // A cell that is not on the grid is no landmark: no token of it is read.
  let tokens = select(params.n, params.nq, of_queries);
  let on_grid = cells[cell] <= select(0u, 1u, HAS_Q) && cells[cell + 1u] <= cells[cell + 2u]
    && cells[cell + 3u] <= cells[cell + 4u] && cells[cell + 4u] <= params.grid_cols
    && cells[cell + 2u] <= tokens / params.grid_cols;
  let rows = select(0u, cells[cell + 2u] - cells[cell + 1u], on_grid);
  let cols = select(0u, cells[cell + 4u] - cells[cell + 3u], on_grid);
  var sum = 0.0;
  var mine = 0u;
  for (var i = lane; i < rows * cols; i += LANES) {
    let token = (cells[cell + 1u] + i / cols) * params.grid_cols + cells[cell + 3u] + i % cols;
    if (c < params.d) {
      if (of_queries) {
        sum += q[params.q_at + (local_batch * params.nq + token) * params.d + c];
        mine += 1u;
      } else if (is_kept(batch, token)) {
        sum += k[params.k_at + (local_batch * params.n + token) * params.d + c];
        mine += 1u;
      }
    }
  }
  sums[thread] = sum;
  members[thread] = mine;
  workgroupBarrier(); // all partial sums are there before the first lane adds them
  if (lane == 0u && c < params.d) {
    var total = 0.0;
    var kept = 0u;
    for (var l = 0u; l < LANES; l++) {
      total += sums[l * 4u + thread];
      kept += members[l * 4u + thread];
    }
    let place = local_batch * params.m + landmark;
    out[params.out_at + place * params.d + c] = select(0.0, total / f32(max(kept, 1u)), kept > 0u);
    if (c == 0u) { valid[params.valid_at + place] = select(0u, 1u, kept > 0u); }
  }
}
