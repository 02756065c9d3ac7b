// rows[i] = (m, t) as in feature_rows_plain.wgsl; u and x come as texels of four words. One thread per row.
@group(0) @binding(1) var u: texture_2d<f32>;
@group(0) @binding(2) var x: texture_2d<f32>;
@group(0) @binding(3) var<storage, read_write> rows: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let row = group % groups_per_batch * 64u + thread;
  if (row >= params.n) { return; }
  let place = local_batch * params.n + row;
  var m = 0.0;
  if (SIDES != 2u) {
    let texels = params.p / 4u;
    let begin = params.u_at / 4u + place * texels;
    var largest = textureLoad(u, texel_place(begin), 0);
    if (SIDES == 1u) { largest = abs(largest); }
    for (var t = 1u; t < texels; t++) {
      var four = textureLoad(u, texel_place(begin + t), 0);
      if (SIDES == 1u) { four = abs(four); }
      largest = max(largest, four);
    }
    m = max(max(largest.x, largest.y), max(largest.z, largest.w));
  }
  let x_texels = params.d / 4u;
  let x_begin = params.x_at / 4u + place * x_texels;
  var sums = vec4f();
  for (var t = 0u; t < x_texels; t++) {
    let four = params.half * textureLoad(x, texel_place(x_begin + t), 0);
    sums += four * four;
  }
  let norm = (sums.x + sums.y) + (sums.z + sums.w);
  var t = max(-norm, -500.0);
  if (ENDS == 0u) { t = select(params.scale * m - norm, norm, SIDES == 2u); }
  if (ENDS == 1u) { t = 0.0; }
  rows[params.rows_at + place * 2u] = m;
  rows[params.rows_at + place * 2u + 1u] = clamp(t, -1e38, 1e38);
}
