// Queries word by word; channels lie in whole vec4f.
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<vec4f>;
@group(0) @binding(3) var<storage, read> prior: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

fn query(row: u32, feature: u32) -> f32 {
  if (feature >= params.r) { return 0.0; }
  return q[params.q_at + row * params.r + feature];
}

fn queries(row: u32, feature: u32) -> vec4f {
  return vec4f(query(row, feature), query(row, feature + 1u), query(row, feature + 2u), query(row, feature + 3u));
}

fn channels(head: u32, row: u32, channel: u32) -> vec4f { return x[channel_word(head, row, channel) >> 2u]; }
