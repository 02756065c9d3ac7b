// out[j, i] = x[i, j]. One workgroup per 32 x 32 tile: rows are read and written along memory, and the corner is
// turned in workgroup memory, whose rows have one word of padding so that a column does not hit one bank.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

var<workgroup> tile: array<f32, 1056>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let row_tiles = (params.n + 31u) / 32u;
  let col_tiles = (params.m + 31u) / 32u;
  let batch = group / (row_tiles * col_tiles);
  let row0 = group / col_tiles % row_tiles * 32u;
  let col0 = group % col_tiles * 32u;
  let line = thread / 32u;
  let place = thread % 32u;
  let x_from = params.x_at + batch * params.n * params.m;
  let out_from = params.out_at + batch * params.n * params.m;
  for (var r = line; r < 32u; r += 8u) {
    if (row0 + r < params.n && col0 + place < params.m) {
      tile[r * 33u + place] = x[x_from + (row0 + r) * params.m + col0 + place];
    }
  }
  workgroupBarrier(); // the tile is complete
  for (var c = line; c < 32u; c += 8u) {
    if (col0 + c < params.m && row0 + place < params.n) {
      out[out_from + (col0 + c) * params.n + row0 + place] = tile[place * 33u + c];
    }
  }
}
