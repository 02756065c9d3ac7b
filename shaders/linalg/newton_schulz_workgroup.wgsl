// The scaled Newton-Schulz iteration of one small matrix in one workgroup: packed lower triangles of A and X in workgroup
// memory, rows of Y = A X as many at a time as fit beside them, and the next X's 4 x 4 blocks in registers, one per
// thread. Gershgorin's bound u, the number of steps and the residual are found here as well.
//
// Only the lower triangle of X Y is computed, but all of Y: A X is symmetric only up to rounding, and making it so
// would keep the errors of X from cancelling in the next step; they would grow by the condition of A instead.
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> bound: array<f32>;

const PACKED: u32 = M * (M + 1u) / 2u;
const BLOCKS_PER_SIDE: u32 = (M + 3u) / 4u;
const BLOCKS: u32 = BLOCKS_PER_SIDE * (BLOCKS_PER_SIDE + 1u) / 2u;
const LAST: u32 = M - 1u;

var<workgroup> packed_a: array<f32, PACKED>;
var<workgroup> packed_x: array<f32, PACKED>;
// PANEL rows of Y, four columns to a word.
var<workgroup> panel: array<vec4f, PANEL * BLOCKS_PER_SIDE>;
var<workgroup> partial: array<f32, THREADS>;

fn triangle(i: u32) -> u32 { return i * (i + 1u) / 2u; }

// Where k = 0 of four rows of a packed symmetric matrix is; the next k is `walk` further.
fn starts(rows: vec4u) -> vec4u { return rows * (rows + vec4u(1u)) / 2u; }
fn walk(rows: vec4u, k: u32) -> vec4u { return select(vec4u(k + 1u), vec4u(1u), vec4u(k) < rows); }

fn four_rows(first: u32) -> vec4u { return min(vec4u(first) + vec4u(0u, 1u, 2u, 3u), vec4u(LAST)); }

// The 4 x 4 block of A X whose rows and columns begin at these.
fn block_of_ax(row0: u32, col0: u32) -> mat4x4f {
  let rows = four_rows(row0);
  let cols = four_rows(col0);
  var at_a = starts(rows);
  var at_x = starts(cols);
  var c0 = vec4f(); var c1 = vec4f(); var c2 = vec4f(); var c3 = vec4f();
  for (var k = 0u; k < M; k++) {
    let line = vec4f(packed_x[at_x.x], packed_x[at_x.y], packed_x[at_x.z], packed_x[at_x.w]);
    c0 += packed_a[at_a.x] * line;
    c1 += packed_a[at_a.y] * line;
    c2 += packed_a[at_a.z] * line;
    c3 += packed_a[at_a.w] * line;
    at_a += walk(rows, k);
    at_x += walk(cols, k);
  }
  return mat4x4f(c0, c1, c2, c3);
}

// Squared distance of a block of A X from the identity.
fn square_miss(row0: u32, col0: u32) -> f32 {
  var block = block_of_ax(row0, col0);
  var sum = 0.0;
  for (var r = 0u; r < 4u; r++) {
    for (var c = 0u; c < 4u; c++) {
      if (row0 + r < M && col0 + c < M) {
        let miss = block[r][c] - select(0.0, 1.0, row0 + r == col0 + c);
        sum += miss * miss;
      }
    }
  }
  return sum;
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
  var row_sum = 0.0;
  if (thread < M) {
    var at = triangle(thread);
    for (var k = 0u; k < M; k++) {
      row_sum += abs(packed_a[at]);
      at += select(k + 1u, 1u, k < thread);
    }
  }
  partial[thread] = row_sum;
  workgroupBarrier(); // all row sums are there
  var u = 0.0;
  for (var i = 0u; i < M; i++) { u = max(u, partial[i]); }
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
  for (var at = thread; at < PACKED; at += THREADS) { packed_x[at] = 0.0; }
  workgroupBarrier(); // X is cleared before its diagonal is set
  if (thread < M) { packed_x[triangle(thread) + thread] = 2.0 / (u + l); }

  // Block `thread` of the lower triangle of blocks, counted row by row.
  var block_row = 0u;
  for (var r = 1u; r < BLOCKS_PER_SIDE; r++) {
    if (triangle(r) <= thread) { block_row = r; }
  }
  let row0 = 4u * block_row;
  let col0 = 4u * (thread - triangle(block_row));
  let busy = thread < BLOCKS;
  let rows = four_rows(row0);
  gap = first_gap;
  delta = 1.0 - gap;
  var taken = 0u;
  // The bound of the loop is a uniform and its barriers are met by everyone, though the last rounds may be idle: how many
  // steps are needed is the same for all threads, but not every compiler can see that.
  for (var k = 0u; k < params.most_steps; k++) {
    let working = k < total_steps;
    var n0 = vec4f(); var n1 = vec4f(); var n2 = vec4f(); var n3 = vec4f();
    var at_x = starts(rows);
    for (var from_row = 0u; from_row < M; from_row += PANEL) {
      workgroupBarrier(); // X is complete, and the last panel has been read
      if (working) {
        for (var block = thread; block < PANEL / 4u * BLOCKS_PER_SIDE; block += THREADS) {
          let line = block / BLOCKS_PER_SIDE * 4u;
          let place = block % BLOCKS_PER_SIDE;
          let y = block_of_ax(from_row + line, 4u * place);
          panel[line * BLOCKS_PER_SIDE + place] = y[0];
          panel[(line + 1u) * BLOCKS_PER_SIDE + place] = y[1];
          panel[(line + 2u) * BLOCKS_PER_SIDE + place] = y[2];
          panel[(line + 3u) * BLOCKS_PER_SIDE + place] = y[3];
        }
      }
      workgroupBarrier(); // the panel is complete
      if (working && busy) {
        for (var row = 0u; row < min(PANEL, M - from_row); row++) {
          let y = panel[row * BLOCKS_PER_SIDE + col0 / 4u];
          n0 += packed_x[at_x.x] * y;
          n1 += packed_x[at_x.y] * y;
          n2 += packed_x[at_x.z] * y;
          n3 += packed_x[at_x.w] * y;
          at_x += walk(rows, from_row + row);
        }
      }
    }
    let next = mat4x4f(n0, n1, n2, n3);
    workgroupBarrier(); // nobody reads X any more
    let wide = 1.0 + gap * (1.0 + delta);
    let scale = 2.0 / wide;
    if (working && busy) {
      for (var r = 0u; r < 4u; r++) {
        for (var c = 0u; c < 4u; c++) {
          if (row0 + r < M && col0 + c <= row0 + r) {
            let at = triangle(row0 + r) + col0 + c;
            packed_x[at] = scale * (2.0 * packed_x[at] - next[r][c]);
          }
        }
      }
    }
    gap = 2.0 * gap * (1.0 + delta) / wide;
    delta = select(delta * delta / wide, 1.0 - gap, gap < 0.5);
    if (k < total_steps) { taken += 1u; }
  }
  workgroupBarrier(); // X is complete
  var sum = 0.0;
  if (HAS_RESIDUAL) {
    for (var block = thread; block < BLOCKS_PER_SIDE * BLOCKS_PER_SIDE; block += THREADS) {
      sum += square_miss(block / BLOCKS_PER_SIDE * 4u, block % BLOCKS_PER_SIDE * 4u);
    }
  }
  partial[thread] = sum;
  for (var half = THREADS / 2u; half > 0u; half /= 2u) {
    workgroupBarrier(); // the sums of the level above are written
    if (thread < half) { partial[thread] += partial[thread + half]; }
  }
  for (var at = thread; at < M * M; at += THREADS) {
    let i = max(at / M, at % M);
    let j = min(at / M, at % M);
    x[params.x_at + group * M * M + at] = packed_x[triangle(i) + j];
  }
  if (thread == 0u) {
    if (HAS_RESIDUAL) { residual[params.residual_at + group] = sqrt(partial[0]); }
    bound[params.bound_at + 2u * group] = u;
    bound[params.bound_at + 2u * group + 1u] = f32(taken);
  }
}
