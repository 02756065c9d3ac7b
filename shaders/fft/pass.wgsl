// One butterfly of one pass for two lines: where its numbers are read, where they go, and in what order it is made.

struct Place {
  x: u32,         // word of input 0
  x_step: u32,    // words between inputs
  number: u32,    // of input 0 on its line; the others follow m apart
  y: u32,         // word of output 0
  y_step: u32,    // words between outputs
  y_number: u32,  // of output 0 on its line
  y_apart: u32,   // between outputs
  y_column: u32,  // of the row that output words begin at
  k: u32,         // row of the table of twiddles
  q: u32,         // first word of this part of the row
  f: u32,         // word of output 0's factor in the spectrum
  f_step: u32,    // words between factors
}

// Butterflies of a line: the last pass has a twiddle for each, and those before it have all outputs.
fn butterflies() -> u32 { return max(params.t, (params.l + RADIX - 1u) / RADIX); }

// Word `q` of row `row` of a head of `rows` rows of `width` words, or of blocks of `block` words that hold all rows.
fn word(rows: u32, row: u32, width: u32, block: u32, blocked: bool, q: u32) -> u32 {
  if (!blocked) { return row * width + q; }
  let number = divide(q, block);
  return (number * rows + row) * block + q - number * block;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let quads = min(params.a + 3u, params.e + 3u) >> 2u;
  let m = butterflies();
  let per_line = quads * m;
  let groups_per_head = (per_line * params.o + 63u) >> 6u;
  let head = divide(group, groups_per_head);
  let item = ((group - head * groups_per_head) << 6u) + thread;
  let line = divide(item, per_line);
  if (line >= params.o) { return; }
  let in_line = item - line * per_line;
  let i = divide(in_line, quads);
  var at: Place;
  at.q = (in_line - i * quads) << 2u;
  at.number = i;
  at.k = i - divide(i, params.t) * params.t;
  let rows = params.o * params.n;
  let from_head = params.x_at + head * rows * params.a;
  at.x = from_head + word(rows, line * params.n + i, params.a, params.x_block, (BLOCKED & 1u) != 0u, params.x_from + at.q);
  at.x_step = m * select(params.a, params.x_block, (BLOCKED & 1u) != 0u);
  if (HAS_S) {
    at.y_number = i * RADIX;
    at.y_apart = 1u;
    let places = divide(params.a, params.channels);
    let batch = divide(params.batch_from + head, params.per);
    let spectrum = batch - divide(batch, params.r) * params.r;
    at.f = params.s_at + 2u * (spectrum * params.f + (line * RADIX * m + i) * places + divide(at.q, params.channels));
    at.f_step = 2u * m * places;
  } else {
    at.y_number = (i - at.k) * RADIX + at.k;
    at.y_apart = params.t;
  }
  let y_rows = params.o * params.l;
  at.y_column = params.y_from + at.q;
  at.y = params.y_at + head * y_rows * params.e
    + word(y_rows, line * params.l + at.y_number, params.e, params.y_block, (BLOCKED & 2u) != 0u, at.y_column);
  at.y_step = at.y_apart * select(params.e, params.y_block, (BLOCKED & 2u) != 0u);
  butterfly(at);
}

// Input `j`, 0 beyond the numbers given. An inverse transform is a forward one of exchanged parts.
fn input(at: Place, j: u32) -> vec4f {
  if (j >= FILLED) { return vec4f(); }
  var z = loaded(at, at.x + j * at.x_step);
  if (RAGGED_INPUT && j + 1u == FILLED) { z = select(vec4f(), z, at.number + j * butterflies() < params.n); }
  if (INVERSE != 0u) { return swapped(z); }
  return z;
}

fn output(at: Place, j: u32, z: vec4f) {
  if (j >= STORED) { return; }
  if (RAGGED_OUTPUT && at.y_number + j * at.y_apart >= params.l) { return; }
  var scaled = z * params.scale;
  if (INVERSE != 0u || HAS_S) { scaled = swapped(scaled); }
  stored(at, at.y + j * at.y_step, scaled);
}

// Output `j` of the forward transform times its factor, as input of the inverse one.
fn filtered(at: Place, j: u32, z: vec4f) -> vec4f { return swapped(times(z, factor(at.f + j * at.f_step))); }
