// Whole transforms in workgroup memory: TILE pairs of lines of LENGTH numbers per group of THREADS threads, four numbers of a pair
// to a thread, in Stockham's order with radix 4 (and 2 first where LENGTH wants it). Inputs come from memory and outputs go
// there once; between the passes the numbers change hands. With a spectrum: forward, a product, and back.
@group(0) @binding(1) var<storage, read> x: array<vec4f>; // [b, h, o, n, a]
@group(0) @binding(2) var<storage, read> roots: array<f32>; // [t, 2]
@group(0) @binding(3) var<storage, read> s: array<f32>; // [r, f, 2]
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>; // [b, h, o, l, e]

const QUARTER: u32 = LENGTH / 4u;

var<workgroup> cells: array<vec4f, 4u * THREADS>;

struct Four {
  z: array<vec4f, 4>,
  at: vec4u, // their numbers on the line
}

fn root(k: u32) -> vec2f {
  let word = params.roots_at + 2u * k;
  return vec2f(roots[word], roots[word + 1u]);
}

// Word `q` of row `row` of a head of `rows` rows of `width` words, or of blocks of `block` words that hold all rows.
fn word(rows: u32, row: u32, width: u32, block: u32, blocked: bool, q: u32) -> u32 {
  if (!blocked) { return row * width + q; }
  let number = q / block;
  return (number * rows + row) * block + q - number * block;
}

// Gives away four numbers of column `column` and takes those that are a quarter apart from `i` on.
fn exchanged(four: Four, i: u32, column: u32) -> array<vec4f, 4> {
  cells[four.at.x * TILE + column] = four.z[0];
  cells[four.at.y * TILE + column] = four.z[1];
  cells[four.at.z * TILE + column] = four.z[2];
  cells[four.at.w * TILE + column] = four.z[3];
  workgroupBarrier(); // all numbers of the pass are there
  let z = array<vec4f, 4>(cells[i * TILE + column], cells[(i + QUARTER) * TILE + column],
    cells[(i + 2u * QUARTER) * TILE + column], cells[(i + 3u * QUARTER) * TILE + column]);
  workgroupBarrier(); // and have been read
  return z;
}

fn transformed(given: array<vec4f, 4>, i: u32, column: u32) -> Four {
  var four: Four;
  var z = given;
  var p = 1u;
  if (ODD) {
    four.z = array<vec4f, 4>(z[0] + z[2], z[0] - z[2], z[1] + z[3], z[1] - z[3]);
    four.at = 2u * vec4u(i, i, i + QUARTER, i + QUARTER) + vec4u(0u, 1u, 0u, 1u);
    p = 2u;
  }
  for (; p < LENGTH; p *= 4u) {
    if (p > 1u) { z = exchanged(four, i, column); }
    let k = i & (p - 1u);
    let turn = k * (QUARTER / p);
    z = dft4(z[0], times(z[1], root(turn)), times(z[2], root(2u * turn)), times(z[3], root(3u * turn)));
    four.z = z;
    four.at = vec4u((i - k) * 4u + k) + vec4u(0u, 1u, 2u, 3u) * p;
  }
  return four;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let quads = min(params.a, params.e) / 4u;
  let items = params.o * quads;
  let groups_per_head = (items + TILE - 1u) / TILE;
  let head = group / groups_per_head;
  let column = thread % TILE;
  let i = thread / TILE;
  // Pairs past the end repeat the last one and are not stored.
  let wanted = (group - head * groups_per_head) * TILE + column;
  let item = min(wanted, items - 1u);
  let line = item / quads;
  let q = 4u * (item - line * quads);

  let x_rows = params.o * params.n;
  let x_from = params.x_at + head * x_rows * params.a;
  var z = array<vec4f, 4>();
  for (var j = 0u; j < 4u; j++) {
    let number = i + j * QUARTER;
    if (number < params.n) {
      z[j] = x[(x_from + word(x_rows, line * params.n + number, params.a, params.x_block, (BLOCKED & 1u) != 0u, params.x_from + q)) / 4u];
    }
    if (INVERSE != 0u) { z[j] = swapped(z[j]); }
  }
  var four = transformed(z, i, column);
  if (HAS_S) {
    let places = params.a / params.channels;
    let spectrum = (params.batch_from + head) / params.per % params.r;
    let s_from = params.s_at + 2u * (spectrum * params.f + line * LENGTH * places + q / params.channels);
    for (var j = 0u; j < 4u; j++) {
      let at = s_from + 2u * four.at[j] * places;
      four.z[j] = swapped(times(four.z[j], vec2f(s[at], s[at + 1u])));
    }
    four = transformed(exchanged(four, i, column), i, column);
  }
  let y_rows = params.o * params.l;
  let y_from = params.y_at + head * y_rows * params.e;
  for (var j = 0u; j < 4u; j++) {
    let number = four.at[j];
    if (number < params.l && wanted < items) {
      var scaled = four.z[j] * params.scale;
      if (INVERSE != 0u || HAS_S) { scaled = swapped(scaled); }
      y[(y_from + word(y_rows, line * params.l + number, params.e, params.y_block, (BLOCKED & 2u) != 0u, params.y_from + q)) / 4u] = scaled;
    }
  }
}
