// Products of mapped queries and keys for the rows of relative_row.wgsl.
@group(0) @binding(1) var<storage, read> q: array<f32>; // [b, h, n, r]
@group(0) @binding(2) var<storage, read> k: array<f32>; // [b, h, n, r]
@group(0) @binding(3) var<storage, read> table: array<f32>; // [h or 1, t]
@group(0) @binding(4) var<storage, read> key_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(5) var<storage, read> segment: array<u32>; // [n, 2]
@group(0) @binding(6) var<storage, read> rows: array<u32>; // [c]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [b, h, n, c]

fn load_q(at: u32, c: u32) -> f32 { return select(0.0, q[at + min(c, params.r - 1u)], c < params.r); }
fn load_k(at: u32, c: u32) -> f32 { return select(0.0, k[at + min(c, params.r - 1u)], c < params.r); }

fn product(local_batch: u32, row: u32, key: u32, number: u32) -> f32 {
  let q_from = params.q_at + (local_batch * params.n + row) * params.r;
  let k_from = params.k_at + (local_batch * params.n + key) * params.r;
  var sum = 0.0;
  for (var c = 0u; c < params.r; c += 4u) {
    sum += load_q(q_from, c) * load_k(k_from, c) + load_q(q_from, c + 1u) * load_k(k_from, c + 1u)
      + load_q(q_from, c + 2u) * load_k(k_from, c + 2u) + load_q(q_from, c + 3u) * load_k(k_from, c + 3u);
  }
  return sum;
}
