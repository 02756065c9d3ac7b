// Four rows per thread in registers, from a texture; landmarks from a uniform buffer, of which a thread loads the vec4s of its lane and
// gets the others by subgroup broadcasts: on llvmpipe they cost next to nothing beside a load.
@group(0) @binding(1) var x: texture_2d<f32>;
@group(0) @binding(2) var<uniform> y: array<vec4f, 4096>;
@group(0) @binding(3) var<storage, read> lambda: array<f32>;
@group(0) @binding(4) var<storage, read> x_keep: array<u32>;
@group(0) @binding(5) var<storage, read> y_keep: array<u32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;

fn texel(at: u32) -> vec4f { return textureLoad(x, texel_place(at), 0); }

@compute @workgroup_size(8)
fn main(
  @builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32,
  @builtin(subgroup_invocation_id) lane: u32,
) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let rows = params.n;
  let columns = params.m;
  let groups_per_batch = (rows + 31u) / 32u;
  let local_batch = group / groups_per_batch;
  // Threads past the last row go on with it, because broadcasts want them all, and store nothing.
  let row0 = group % groups_per_batch * 32u + thread;
  let row1 = row0 + 8u;
  let row2 = row0 + 16u;
  let row3 = row0 + 24u;
  let batch = params.batch_from + local_batch;
  let bandwidth = bandwidth_of(batch % params.h);
  let x_start = params.x_at / 4u + local_batch * rows * D4;
  let x0 = token(x_start + min(row0, rows - 1u) * D4);
  let x1 = token(x_start + min(row1, rows - 1u) * D4);
  let x2 = token(x_start + min(row2, rows - 1u) * D4);
  let x3 = token(x_start + min(row3, rows - 1u) * D4);
  var at_y = local_batch * columns * D4 + lane % 8u;
  let out_start = params.out_at + local_batch * rows * columns;
  for (var col = 0u; col < columns; col++) {
    let low = y[at_y];
    var high = vec4f(); if (D4 > 8u) { high = y[at_y + 8u]; }
    let landmark = gathered(low, high);
    let at = out_start + row0 * columns + col;
    let e0 = entry(batch, row0, col, gap(x0, landmark), bandwidth);
    let e1 = entry(batch, row1, col, gap(x1, landmark), bandwidth);
    let e2 = entry(batch, row2, col, gap(x2, landmark), bandwidth);
    let e3 = entry(batch, row3, col, gap(x3, landmark), bandwidth);
    if (row0 < rows) { out[at] = e0; }
    if (row1 < rows) { out[at + 8u * columns] = e1; }
    if (row2 < rows) { out[at + 16u * columns] = e2; }
    if (row3 < rows) { out[at + 24u * columns] = e3; }
    at_y += D4;
  }
}
