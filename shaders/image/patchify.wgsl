// Patches of a picture as rows: one thread per pixel of a patch, so that the divisions that find its place serve all of its
// channels. image [rows, cols, channels], out [1, 1, n, p] with p = patch * patch * channels, channel fastest.
@group(0) @binding(1) var<storage, read> image: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let side = params.patch_size;
  let channels = params.channels;
  let at = group * 64u + thread;
  let local_token = at / (side * side);
  if (local_token >= params.n) { return; }
  let pixel = at - local_token * side * side;
  let token = params.first_token + local_token;
  let token_row = token / params.grid_cols;
  let pixel_row = pixel / side;
  let cell = vec2u(token - token_row * params.grid_cols, token_row) * params.stride + params.stride / 2u;
  // The given rows are those of the picture from first_row on.
  let corner = vec2i(cell + vec2u(pixel - pixel_row * side, pixel_row)) - i32(side / 2u)
    - vec2i(0, i32(params.first_row));
  let place = vec2u(clamp(corner, vec2i(0), vec2i(i32(params.cols) - 1, i32(params.rows) - 1)));
  var from_image = params.image_at + (place.y * params.cols + place.x) * channels;
  var to = params.out_at + at * channels;
  for (var channel = 0u; channel < channels; channel++) {
    out[to] = image[from_image];
    to += 1u;
    from_image += 1u;
  }
}
