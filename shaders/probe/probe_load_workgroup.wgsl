// Words of workgroup memory, which are fetched once.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

var<workgroup> words: array<f32, 1024>;

fn begin(batch: u32, thread: u32) {
  for (var at = thread; at < 4u * TEXELS; at += 64u) { words[at] = x[params.x_at + batch * 4u * TEXELS + at]; }
  workgroupBarrier(); // all words are there
}

fn texel(batch: u32, at: u32) -> vec4f {
  return vec4f(words[at], words[at + TEXELS], words[at + 2u * TEXELS], words[at + 3u * TEXELS]);
}
