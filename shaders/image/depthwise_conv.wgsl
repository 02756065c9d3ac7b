// 3 x 3 convolution of every channel over the token grid, zeros outside, plus a residual.
// v, residual, out [b, h, rows, cols, e]; weight [h, e, 9], row by row from above left.
// A thread makes four results of one channel, one below the other: 18 loads of v and 9 weights instead of 36 and 36.
@group(0) @binding(1) var<storage, read> v: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

// The three neighbours of a row, left to right; rows and columns outside the grid are zero.
fn neighbours(start: u32, row: i32, col: u32) -> vec3f {
  var x = vec3f();
  if (row < 0 || u32(row) >= params.rows) { return x; }
  let at = start + (u32(row) * params.cols + col) * params.e;
  x.y = v[at];
  if (col > 0u) { x.x = v[at - params.e]; }
  if (col + 1u < params.cols) { x.z = v[at + params.e]; }
  return x;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let threads = (params.rows + 3u) / 4u * params.cols * params.e;
  let groups_per_batch = (threads + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let place = group % groups_per_batch * 64u + thread;
  if (place >= threads) { return; }
  let channel = place % params.e;
  let col = place / params.e % params.cols;
  let row0 = place / params.e / params.cols * 4u;
  let inside = local_batch * params.rows * params.cols * params.e + channel;
  let w_at = params.weight_at + ((params.batch_from + local_batch) % params.h * params.e + channel) * 9u;
  let w0 = vec3f(weight[w_at], weight[w_at + 1u], weight[w_at + 2u]);
  let w1 = vec3f(weight[w_at + 3u], weight[w_at + 4u], weight[w_at + 5u]);
  let w2 = vec3f(weight[w_at + 6u], weight[w_at + 7u], weight[w_at + 8u]);
  let start = params.v_at + inside;
  var above = neighbours(start, i32(row0) - 1, col);
  var here = neighbours(start, i32(row0), col);
  for (var row = row0; row < min(row0 + 4u, params.rows); row++) {
    let below = neighbours(start, i32(row) + 1, col);
    var y = dot(w0, above) + dot(w1, here) + dot(w2, below);
    let at = inside + (row * params.cols + col) * params.e;
    if (HAS_RESIDUAL) { y += residual[params.residual_at + at]; }
    out[params.out_at + at] = y;
    above = here;
    here = below;
  }
}
