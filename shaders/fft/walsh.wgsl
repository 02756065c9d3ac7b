// Walsh-Hadamard transform of `STAGES` bits of the rows' numbers in workgroup memory: LINE rows that differ in those bits, LANES
// numbers of each (words, or vectors of four), four stages between barriers. With a spectrum the same bits are transformed back after
// every row was multiplied by the spectrum's entry for the ones in its number.
const POINTS: u32 = 1u << STAGES;

var<workgroup> tile: array<Number, POINTS * LANES>;

fn ones_of(row: u32) -> u32 { return countOneBits(row); }

fn pair_stage(thread: u32, bit: u32) {
  for (var t = thread; t < POINTS / 2u * LANES; t += 64u) {
    let point = t / LANES;
    let low = point & ((1u << bit) - 1u);
    let at = (((point - low) << 1u) | low) * LANES + t % LANES;
    let to = at + (LANES << bit);
    let a = tile[at];
    let b = tile[to];
    tile[at] = a + b;
    tile[to] = a - b;
  }
  workgroupBarrier(); // the stage is complete before the next one reads it
}

fn two_stages(thread: u32, bit: u32) {
  for (var t = thread; t < POINTS / 4u * LANES; t += 64u) {
    let point = t / LANES;
    let low = point & ((1u << bit) - 1u);
    let at = (((point - low) << 2u) | low) * LANES + t % LANES;
    let step = LANES << bit;
    let a = tile[at];
    let b = tile[at + step];
    let c = tile[at + 2u * step];
    let d = tile[at + 3u * step];
    tile[at] = (a + b) + (c + d);
    tile[at + step] = (a - b) + (c - d);
    tile[at + 2u * step] = (a + b) - (c + d);
    tile[at + 3u * step] = (a - b) - (c - d);
  }
  workgroupBarrier(); // the stages are complete before the next one reads them
}

fn four_stages(thread: u32, bit: u32) {
  for (var t = thread; t < POINTS / 16u * LANES; t += 64u) {
    let point = t / LANES;
    let low = point & ((1u << bit) - 1u);
    let at = (((point - low) << 4u) | low) * LANES + t % LANES;
    let step = LANES << bit;
    let a0 = tile[at];
    let a1 = tile[at + step];
    let a2 = tile[at + 2u * step];
    let a3 = tile[at + 3u * step];
    let a4 = tile[at + 4u * step];
    let a5 = tile[at + 5u * step];
    let a6 = tile[at + 6u * step];
    let a7 = tile[at + 7u * step];
    let a8 = tile[at + 8u * step];
    let a9 = tile[at + 9u * step];
    let a10 = tile[at + 10u * step];
    let a11 = tile[at + 11u * step];
    let a12 = tile[at + 12u * step];
    let a13 = tile[at + 13u * step];
    let a14 = tile[at + 14u * step];
    let a15 = tile[at + 15u * step];
    let b0 = a0 + a1; let b1 = a0 - a1; let b2 = a2 + a3; let b3 = a2 - a3;
    let b4 = a4 + a5; let b5 = a4 - a5; let b6 = a6 + a7; let b7 = a6 - a7;
    let b8 = a8 + a9; let b9 = a8 - a9; let b10 = a10 + a11; let b11 = a10 - a11;
    let b12 = a12 + a13; let b13 = a12 - a13; let b14 = a14 + a15; let b15 = a14 - a15;
    let c0 = b0 + b2; let c1 = b1 + b3; let c2 = b0 - b2; let c3 = b1 - b3;
    let c4 = b4 + b6; let c5 = b5 + b7; let c6 = b4 - b6; let c7 = b5 - b7;
    let c8 = b8 + b10; let c9 = b9 + b11; let c10 = b8 - b10; let c11 = b9 - b11;
    let c12 = b12 + b14; let c13 = b13 + b15; let c14 = b12 - b14; let c15 = b13 - b15;
    let d0 = c0 + c4; let d1 = c1 + c5; let d2 = c2 + c6; let d3 = c3 + c7;
    let d4 = c0 - c4; let d5 = c1 - c5; let d6 = c2 - c6; let d7 = c3 - c7;
    let d8 = c8 + c12; let d9 = c9 + c13; let d10 = c10 + c14; let d11 = c11 + c15;
    let d12 = c8 - c12; let d13 = c9 - c13; let d14 = c10 - c14; let d15 = c11 - c15;
    let e0 = d0 + d8; let e1 = d1 + d9; let e2 = d2 + d10; let e3 = d3 + d11;
    let e4 = d4 + d12; let e5 = d5 + d13; let e6 = d6 + d14; let e7 = d7 + d15;
    let e8 = d0 - d8; let e9 = d1 - d9; let e10 = d2 - d10; let e11 = d3 - d11;
    let e12 = d4 - d12; let e13 = d5 - d13; let e14 = d6 - d14; let e15 = d7 - d15;
    tile[at] = e0;
    tile[at + step] = e1;
    tile[at + 2u * step] = e2;
    tile[at + 3u * step] = e3;
    tile[at + 4u * step] = e4;
    tile[at + 5u * step] = e5;
    tile[at + 6u * step] = e6;
    tile[at + 7u * step] = e7;
    tile[at + 8u * step] = e8;
    tile[at + 9u * step] = e9;
    tile[at + 10u * step] = e10;
    tile[at + 11u * step] = e11;
    tile[at + 12u * step] = e12;
    tile[at + 13u * step] = e13;
    tile[at + 14u * step] = e14;
    tile[at + 15u * step] = e15;
  }
  workgroupBarrier(); // the stages are complete before the next ones read them
}

fn transform(thread: u32) {
  if (STAGES % 2u == 1u) { pair_stage(thread, 0u); }
  if (STAGES % 4u >= 2u) { two_stages(thread, STAGES % 2u); }
  for (var bit = STAGES % 4u; bit < STAGES; bit += 4u) { four_stages(thread, bit); }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let width = params.c / WORDS;
  let slices = (width + LANES - 1u) / LANES;
  let lines = params.o * params.i;
  let batch = group / (slices * lines);
  let line = group / slices % lines;
  let lane0 = group % slices * LANES;
  // The line's first row: its number without the bits that are transformed.
  let low = line & ((1u << FIRST) - 1u);
  let row0 = ((line - low) << STAGES) | low;
  let start = batch * params.o * params.p * params.i * width;
  for (var t = thread; t < POINTS * LANES; t += 64u) {
    let lane = min(lane0 + t % LANES, width - 1u);
    tile[t] = x[params.x_at / WORDS + start + (row0 + ((t / LANES) << FIRST)) * width + lane];
  }
  workgroupBarrier(); // all rows are there before the first stage
  transform(thread);
  if (HAS_SPECTRUM) {
    var from_place = params.spectrum_at;
    if (params.tables > 1u) { from_place += (params.batch_from + batch) % params.h * params.k; }
    for (var t = thread; t < POINTS * LANES; t += 64u) {
      tile[t] *= spectrum[from_place + ones_of(row0 + ((t / LANES) << FIRST))];
    }
    workgroupBarrier(); // every row is multiplied before it is transformed back
    transform(thread);
  }
  for (var t = thread; t < POINTS * LANES; t += 64u) {
    let lane = lane0 + t % LANES;
    if (lane < width) { y[params.y_at / WORDS + start + (row0 + ((t / LANES) << FIRST)) * width + lane] = tile[t]; }
  }
}
