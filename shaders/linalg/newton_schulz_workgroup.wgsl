// The scaled Newton-Schulz iteration of one small matrix in one workgroup: A as a packed lower triangle and X whole in
// workgroup memory, as many rows of Y = A X at a time as fit beside them, and the next X in registers, an 8 x 4 block per
// thread. Gershgorin's bound u, the number of steps and the residual are found here as well.
//
// X is symmetric in exact arithmetic, yet half of it is not enough: its rounding errors are large on one side only, and
// made symmetric they meet in the next step's product and grow (at condition 1.6e3 the residual rises from 3e-4 to
// 1.6e-2, at 5e4 the iteration diverges).
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> bound: array<f32>;

const QUADS: u32 = (M + 3u) / 4u; // groups of four columns
const BLOCKS: u32 = (M + 7u) / 8u * QUADS;
const LAST: u32 = M - 1u;

var<workgroup> packed_a: array<f32, M * (M + 1u) / 2u>;
// X; before and after the iteration also a slot per thread for sums.
var<workgroup> whole_x: array<f32, max(M * M, THREADS)>;
// PANEL rows of Y.
var<workgroup> panel: array<vec4f, PANEL * QUADS>;

fn triangle(i: u32) -> u32 { return i * (i + 1u) / 2u; }

// Four columns of a row of A X. Columns past the edge repeat the last one.
fn quad_of_ax(row: u32, quad: u32) -> vec4f {
  let cols = min(vec4u(4u * quad) + vec4u(0u, 1u, 2u, 3u), vec4u(LAST));
  var at = triangle(row);
  var y = vec4f();
  for (var k = 0u; k < M; k++) {
    let line = vec4u(k * M) + cols;
    y += packed_a[at] * vec4f(whole_x[line.x], whole_x[line.y], whole_x[line.z], whole_x[line.w]);
    at += select(k + 1u, 1u, k < row);
  }
  return y;
}

// factor (2 X - product) in one row of a block.
fn advance(row: u32, col0: u32, product: vec4f, factor: f32) {
  if (row >= M) { return; }
  for (var c = 0u; c < 4u; c++) {
    if (col0 + c < M) {
      let at = row * M + col0 + c;
      whole_x[at] = factor * (2.0 * whole_x[at] - product[c]);
    }
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let from_a = params.a_at + group * M * M;
  for (var at = thread; at < M * M; at += THREADS) {
    let i = at / M;
    let j = at % M;
    if (j <= i) { packed_a[triangle(i) + j] = a[from_a + at]; }
  }
  workgroupBarrier(); // A is complete
  // There are at least as many threads as rows.
  if (thread < M) {
    var row_sum = 0.0;
    var at = triangle(thread);
    for (var k = 0u; k < M; k++) {
      row_sum += abs(packed_a[at]);
      at += select(k + 1u, 1u, k < thread);
    }
    whole_x[thread] = row_sum;
  }
  workgroupBarrier(); // all row sums are there
  var u = 0.0;
  for (var i = 0u; i < M; i++) { u = max(u, whole_x[i]); }
  let l = params.epsilon;
  // delta and its gap 1 - delta: far from convergence the gap is the small number, near it delta is.
  let own_bound = params.upper == 0.0;
  let upper = select(params.upper, u, own_bound);
  let first_gap = 2.0 * l / (max(upper, l) + l);
  var gap = first_gap;
  var delta = 1.0 - gap;
  var total_steps = params.most_steps;
  if (own_bound) {
    // One step more than the bound asks for: at the bound alone up to `tolerance` is left in X.
    total_steps = 1u;
    for (var k = 1u; k < params.most_steps; k++) {
      if (delta > params.tolerance) {
        let wide = 1.0 + gap * (1.0 + delta);
        gap = 2.0 * gap * (1.0 + delta) / wide;
        delta = select(delta * delta / wide, 1.0 - gap, gap < 0.5);
        total_steps += 1u;
      }
    }
  }
  workgroupBarrier(); // the row sums have been read
  for (var at = thread; at < M * M; at += THREADS) {
    whole_x[at] = select(0.0, 2.0 / (u + l), at / M == at % M);
  }

  let busy = thread < BLOCKS;
  let row0 = thread / QUADS * 8u;
  let quad = thread % QUADS;
  let lines_low = min(vec4u(row0) + vec4u(0u, 1u, 2u, 3u), vec4u(LAST)) * M;
  let lines_high = min(vec4u(row0) + vec4u(4u, 5u, 6u, 7u), vec4u(LAST)) * M;
  gap = first_gap;
  delta = 1.0 - gap;
  var taken = 0u;
  // The bound of the loop is a uniform and its barriers are met by everyone, though the last rounds may be idle: how many
  // steps are needed is the same for all threads, but not every compiler can see that.
  for (var k = 0u; k < params.most_steps; k++) {
    let working = k < total_steps;
    var n0 = vec4f(); var n1 = vec4f(); var n2 = vec4f(); var n3 = vec4f();
    var n4 = vec4f(); var n5 = vec4f(); var n6 = vec4f(); var n7 = vec4f();
    for (var from_row = 0u; from_row < M; from_row += PANEL) {
      let lines = min(PANEL, M - from_row);
      workgroupBarrier(); // X is complete, and the last panel has been read
      if (working) {
        for (var at = thread; at < lines * QUADS; at += THREADS) {
          panel[at] = quad_of_ax(from_row + at / QUADS, at % QUADS);
        }
      }
      workgroupBarrier(); // the panel is complete
      if (working && busy) {
        for (var line = 0u; line < lines; line++) {
          let y = panel[line * QUADS + quad];
          let col = from_row + line;
          n0 += whole_x[lines_low.x + col] * y;
          n1 += whole_x[lines_low.y + col] * y;
          n2 += whole_x[lines_low.z + col] * y;
          n3 += whole_x[lines_low.w + col] * y;
          n4 += whole_x[lines_high.x + col] * y;
          n5 += whole_x[lines_high.y + col] * y;
          n6 += whole_x[lines_high.z + col] * y;
          n7 += whole_x[lines_high.w + col] * y;
        }
      }
    }
    workgroupBarrier(); // nobody reads X any more
    let wide = 1.0 + gap * (1.0 + delta);
    let factor = 2.0 / wide;
    if (working && busy) {
      advance(row0, 4u * quad, n0, factor);
      advance(row0 + 1u, 4u * quad, n1, factor);
      advance(row0 + 2u, 4u * quad, n2, factor);
      advance(row0 + 3u, 4u * quad, n3, factor);
      advance(row0 + 4u, 4u * quad, n4, factor);
      advance(row0 + 5u, 4u * quad, n5, factor);
      advance(row0 + 6u, 4u * quad, n6, factor);
      advance(row0 + 7u, 4u * quad, n7, factor);
    }
    gap = 2.0 * gap * (1.0 + delta) / wide;
    delta = select(delta * delta / wide, 1.0 - gap, gap < 0.5);
    if (working) { taken += 1u; }
  }
  workgroupBarrier(); // X is complete
  for (var at = thread; at < M * M; at += THREADS) { x[params.x_at + group * M * M + at] = whole_x[at]; }
  if (HAS_RESIDUAL) {
    var sum = 0.0;
    for (var at = thread; at < M * QUADS; at += THREADS) {
      let row = at / QUADS;
      let y = quad_of_ax(row, at % QUADS);
      for (var c = 0u; c < 4u; c++) {
        let col = at % QUADS * 4u + c;
        if (col < M) {
          let miss = y[c] - select(0.0, 1.0, row == col);
          sum += miss * miss;
        }
      }
    }
    workgroupBarrier(); // nobody reads X any more
    whole_x[thread] = sum;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
      workgroupBarrier(); // the sums of the level above are written
      if (thread < half) { whole_x[thread] += whole_x[thread + half]; }
    }
    if (thread == 0u) { residual[params.residual_at + group] = sqrt(whole_x[0]); }
  }
  if (thread == 0u) {
    bound[params.bound_at + 2u * group] = u;
    bound[params.bound_at + 2u * group + 1u] = f32(taken);
  }
}
