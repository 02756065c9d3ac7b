// Patches of a picture as rows: one thread per number of the result.
// image [rows, cols, channels], out [1, 1, n, p] with p = patch * patch * channels, channel fastest.
@group(0) @binding(1) var<storage, read> image: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let at = group * 64u + thread;
  if (at >= params.n * params.p) { return; }
  let token = params.first_token + at / params.p;
  let channel = at % params.channels;
  let pixel = at % params.p / params.channels;
  let half_patch = params.patch_size / 2u;
  let cell = vec2u(token % params.grid_cols, token / params.grid_cols) * params.stride + params.stride / 2u;
  // The given rows are those of the picture from first_row on.
  let corner = vec2i(cell + vec2u(pixel % params.patch_size, pixel / params.patch_size)) - i32(half_patch)
    - vec2i(0, i32(params.first_row));
  let place = vec2u(clamp(corner, vec2i(0), vec2i(i32(params.cols) - 1, i32(params.rows) - 1)));
  out[params.out_at + at] = image[params.image_at + (place.y * params.cols + place.x) * params.channels + channel];
}
