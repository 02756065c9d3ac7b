// Given products for the rows of relative_row.wgsl.
@group(0) @binding(1) var<storage, read> products: array<f32>; // [b, h, n, c]
@group(0) @binding(2) var<storage, read> table: array<f32>; // [h or 1, t]
@group(0) @binding(3) var<storage, read> key_mask: array<u32>; // bytes [b, h, n]
@group(0) @binding(4) var<storage, read> segment: array<u32>; // [n, 2]
@group(0) @binding(5) var<storage, read> rows: array<u32>; // [c]
@group(0) @binding(6) var<storage, read> given: array<f32>; // [b or 1, h or 1, n, c]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [b, h, n, c]

fn product(local_batch: u32, row: u32, key: u32, number: u32) -> f32 {
  let bare = products[params.products_at + (local_batch * params.n + key) * params.c + number];
  var weighed = bare;
  if (HAS_GIVEN) {
    let batch = params.batch_from + local_batch;
    let start = params.given_at + batch / params.h * params.given_b + batch % params.h * params.given_h;
    let weight = given[start + key * params.c + number];
    // By choice, so that a hidden key may hold anything.
    weighed = select(weight * bare, 0.0, weight == 0.0);
  }
  return weighed;
}
