// 64 rows x 32 channels per group for GPUs: a thread per row. Weights of 16 keys are looked up once and stand in workgroup memory for
// the thread's own channels; the keys' channels are shared by all rows.
@group(0) @binding(1) var<storage, read> x: array<f32>; // [b, h, n, c]
@group(0) @binding(2) var<storage, read> distances: array<u32>; // [b or 1, h or 1, m, w]
@group(0) @binding(3) var<storage, read> table: array<f32>; // [h or 1, t]
@group(0) @binding(4) var<storage, read_write> y: array<f32>; // [b, h, m, c]

// [16 keys, 64 rows], read by the thread that wrote it; [16 keys, 8 times four channels]. 6 KiB.
var<workgroup> weight_tile: array<f32, 1024>;
var<workgroup> x_tile: array<vec4f, 128>;

fn load_x(start: u32, key: u32, c: u32) -> f32 {
  var value = 0.0;
  if (key < params.n && c < params.c) { value = x[start + key * params.c + c]; }
  return value;
}

fn store(at: u32, c: u32, value: vec4f) {
  for (var t = 0u; t < 4u; t++) {
    if (c + t < params.c) { y[at + c + t] = value[t]; }
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let slices = (params.c + 31u) / 32u;
  let row_tiles = (params.m + 63u) / 64u;
  let local_batch = group / (slices * row_tiles);
  let row = group / slices % row_tiles * 64u + thread;
  let c0 = group % slices * 32u;
  let batch = params.batch_from + local_batch;
  let b = batch / params.h;
  let h = batch % params.h;
  let x_from = params.x_at + local_batch * params.n * params.c;
  let table_from = table_of(h);
  // Rows past the end repeat the last one and are not stored.
  let row_from = params.distances_at + b * params.distances_b + h * params.distances_h + min(row, params.m - 1u) * params.w;
  var y0 = vec4f(); var y1 = vec4f(); var y2 = vec4f(); var y3 = vec4f();
  var y4 = vec4f(); var y5 = vec4f(); var y6 = vec4f(); var y7 = vec4f();
  for (var key0 = 0u; key0 < params.n; key0 += 16u) {
    for (var t = thread; t < 128u; t += 64u) {
      let key = key0 + t / 8u;
      let c = c0 + 4u * (t % 8u);
      x_tile[t] = vec4f(load_x(x_from, key, c), load_x(x_from, key, c + 1u), load_x(x_from, key, c + 2u), load_x(x_from, key, c + 3u));
    }
    for (var t = 0u; t < 16u; t += 4u) {
      var w = vec4f();
      if (key0 + t < params.n) { w = weights_of(table_from, row_from, key0 + t, params.n); }
      weight_tile[64u * t + thread] = w.x;
      weight_tile[64u * t + 64u + thread] = w.y;
      weight_tile[64u * t + 128u + thread] = w.z;
      weight_tile[64u * t + 192u + thread] = w.w;
    }
    workgroupBarrier(); // the keys' channels are complete before anyone multiplies
    for (var j = 0u; j < 16u; j++) {
      let w = weight_tile[64u * j + thread];
      y0 += w * x_tile[8u * j]; y1 += w * x_tile[8u * j + 1u];
      y2 += w * x_tile[8u * j + 2u]; y3 += w * x_tile[8u * j + 3u];
      y4 += w * x_tile[8u * j + 4u]; y5 += w * x_tile[8u * j + 5u];
      y6 += w * x_tile[8u * j + 6u]; y7 += w * x_tile[8u * j + 7u];
    }
    workgroupBarrier(); // nobody overwrites channels that others still read
  }
  if (row < params.m) {
    let at = params.y_at + (local_batch * params.m + row) * params.c;
    store(at, c0, y0); store(at, c0 + 4u, y1); store(at, c0 + 8u, y2); store(at, c0 + 12u, y3);
    store(at, c0 + 16u, y4); store(at, c0 + 20u, y5); store(at, c0 + 24u, y6); store(at, c0 + 28u, y7);
  }
}
