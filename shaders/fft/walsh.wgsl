// Walsh-Hadamard transform of `STAGES` bits of the rows' numbers in workgroup memory: LINE rows that differ in those bits, LANES
// numbers of each (words, or vectors of four), two stages between barriers. With a spectrum the same bits are transformed back after
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

fn transform(thread: u32) {
  if (STAGES % 2u == 1u) { pair_stage(thread, 0u); }
  for (var bit = STAGES % 2u; bit < STAGES; bit += 2u) { two_stages(thread, bit); }
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
