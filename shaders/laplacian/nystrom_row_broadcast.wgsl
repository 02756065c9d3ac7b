// Four keys per thread in registers, from a texture; landmarks and weights in uniform buffers. Of a landmark a thread loads the vec4s of
// its lane and gets the others by subgroup broadcasts: on llvmpipe they cost next to nothing beside a load.
@group(0) @binding(1) var k: texture_2d<f32>;
@group(0) @binding(2) var<uniform> landmarks: array<vec4f, 4096>;
@group(0) @binding(3) var<uniform> weights: array<vec4f, 4096>;
@group(0) @binding(4) var<storage, read> lambda: array<f32>;
@group(0) @binding(5) var<storage, read> scale: array<f32>;
@group(0) @binding(6) var<storage, read> keep: array<u32>;
@group(0) @binding(7) var<storage, read> share: array<f32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

fn is_kept(batch: u32, key: u32) -> bool {
  if (!HAS_KEEP) { return true; }
  let at = params.keep_at + batch / params.h * params.keep_b + batch % params.h * params.keep_h + key;
  return byte_of(keep[at >> 2u], at) != 0u;
}

fn texel(at: u32) -> vec4f { return textureLoad(k, texel_place(at), 0); }

fn store(local_batch: u32, batch: u32, key: u32, query: u32, x: f32) {
  if (key >= params.n) { return; }
  var sum = x;
  if (HAS_SCALE) { sum *= scale[params.scale_at + local_batch * params.n + key]; }
  if (HAS_SHARE) { sum += params.constant * share[params.share_at + local_batch]; } else { sum += params.constant; }
  out[params.out_at + (local_batch * params.n + key) * params.r + query] = select(0.0, sum, is_kept(batch, key));
}

@compute @workgroup_size(8)
fn main(
  @builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32,
  @builtin(subgroup_invocation_id) lane: u32,
) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let keys = params.n;
  let landmark_count = params.m;
  // Queries are in the grid, not in a loop: llvmpipe cuts long loops short.
  let key_groups = (keys + 31u) / 32u;
  let local_batch = group / (key_groups * params.r);
  let query = group / key_groups % params.r;
  // Threads past the last key go on with it, because broadcasts want them all, and store nothing.
  let key = group % key_groups * 32u + thread;
  let batch = params.batch_from + local_batch;
  let bandwidth = bandwidth_of(batch % params.h);
  let k_start = params.k_at / 4u + local_batch * keys * D4;
  let k0 = token(k_start + min(key, keys - 1u) * D4);
  let k1 = token(k_start + min(key + 8u, keys - 1u) * D4);
  let k2 = token(k_start + min(key + 16u, keys - 1u) * D4);
  let k3 = token(k_start + min(key + 24u, keys - 1u) * D4);
  let w_start = (local_batch * params.r + query) * params.mw;
  let last = w_start + landmark_count;
  var sums = vec4f(weights[last >> 2u][last & 3u]);
  var at_y = local_batch * landmark_count * D4 + lane % 8u;
  for (var at = w_start; at < last; at++) {
    let low = landmarks[at_y];
    var high = vec4f(); if (D4 > 8u) { high = landmarks[at_y + 8u]; }
    let landmark = gathered(low, high);
    let weight = weights[at >> 2u][at & 3u];
    sums += weight * vec4f(
      finish(gap(k0, landmark), bandwidth), finish(gap(k1, landmark), bandwidth),
      finish(gap(k2, landmark), bandwidth), finish(gap(k3, landmark), bandwidth),
    );
    at_y += D4;
  }
  store(local_batch, batch, key, query, sums.x);
  store(local_batch, batch, key + 8u, query, sums.y);
  store(local_batch, batch, key + 16u, query, sums.z);
  store(local_batch, batch, key + 24u, query, sums.w);
}
