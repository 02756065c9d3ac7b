// Keys and values word by word.
@group(0) @binding(1) var<storage, read> k: array<f32>;
@group(0) @binding(2) var<storage, read> v: array<f32>;
@group(0) @binding(3) var<storage, read> key_mask: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4f>;

fn key(row: u32, feature: u32) -> f32 {
  if (feature >= params.r) { return 0.0; }
  return k[params.k_at + row * params.r + feature];
}

fn value(row: u32, c: u32) -> f32 {
  if (c >= params.e) { return 0.0; }
  return v[params.v_at + row * params.e + c];
}

// The four features of which `feature` is one, 0 beyond the last.
fn keys(row: u32, feature: u32) -> vec4f {
  let l = feature & ~3u;
  return vec4f(key(row, l), key(row, l + 1u), key(row, l + 2u), key(row, l + 3u));
}

fn values(row: u32, c: u32) -> vec4f {
  return vec4f(value(row, c), value(row, c + 1u), value(row, c + 2u), value(row, c + 3u));
}
