// As feature_exp_plain.wgsl, with u as texels of four words: TEXELS_PER_THREAD of them per thread, so that the row's two words
// are fetched once for all.
@group(0) @binding(1) var u: texture_2d<f32>;
@group(0) @binding(2) var<storage, read> rows: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

fn store(at: u32, four: vec4f) {
  out[at] = four.x;
  out[at + 1u] = four.y;
  out[at + 2u] = four.z;
  out[at + 3u] = four.w;
}

fn features(y: vec4f, m: f32, t: f32, scale: f32, gain: f32, eps: f32) -> vec4f {
  let e = scale * (y - m) + t;
  return gain * (vec4f(exp_accurate(e.x), exp_accurate(e.y), exp_accurate(e.z), exp_accurate(e.w)) + eps);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let texels = params.p / 4u;
  let parts = (texels + TEXELS_PER_THREAD - 1u) / TEXELS_PER_THREAD;
  let groups_per_batch = (params.n * parts + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= params.n * parts) { return; }
  let place = local_batch * params.n + item / parts;
  let first = item % parts * TEXELS_PER_THREAD;
  let end = min(first + TEXELS_PER_THREAD, texels);
  let m = rows[params.rows_at + place * 2u];
  let t = rows[params.rows_at + place * 2u + 1u];
  let kept = t > -750.0;
  // Fetched once: software drivers pay for every uniform load inside a loop of stores.
  let scale = params.scale;
  let gain = select(0.0, params.gain, kept);
  let eps = params.eps;
  let second = params.p;
  let weight = gain * exp_accurate(t);
  let begin = params.u_at / 4u + place * texels;
  let to = params.out_at + place * params.r;
  for (var texel = first; texel < end; texel++) {
    var y = textureLoad(u, texel_place(begin + texel), 0);
    // What a row that is left out holds must not reach a product.
    y = select(vec4f(), y, kept);
    let at = to + texel * 4u;
    if (SIDES == 2u) {
      let a = wave(scale * y.x);
      let b = wave(scale * y.y);
      let c = wave(scale * y.z);
      let d = wave(scale * y.w);
      store(at, weight * vec4f(a.x, b.x, c.x, d.x));
      store(at + second, weight * vec4f(a.y, b.y, c.y, d.y));
    } else {
      store(at, features(y, m, t, scale, gain, eps));
      if (SIDES == 1u) { store(at + second, features(-y, m, t, scale, gain, eps)); }
    }
  }
}
