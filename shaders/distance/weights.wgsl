// Weights by distance. Distances lie 4 (BITS = 8) or 2 (BITS = 16) to a word, rows begin at a word; a distance that the table does
// not hold, the greatest number (no way) among them, weighs 0.

fn weight_at(table_from: u32, distance: u32) -> f32 {
  return select(0.0, table[table_from + min(distance, params.t - 1u)], distance < params.t);
}

// Of the keys `key` to `key + 3`, where `key` is a multiple of 4; 0 from `last` on.
fn weights_of(table_from: u32, row_from: u32, key: u32, last: u32) -> vec4f {
  var d = vec4u();
  if (BITS == 8u) {
    let word = distances[row_from + key / 4u];
    d = vec4u(word & 255u, (word >> 8u) & 255u, (word >> 16u) & 255u, word >> 24u);
  } else {
    let lo = distances[row_from + key / 2u];
    var hi = 0u;
    if (key + 2u < last) { hi = distances[row_from + key / 2u + 1u]; }
    d = vec4u(lo & 65535u, lo >> 16u, hi & 65535u, hi >> 16u);
  }
  let w = vec4f(weight_at(table_from, d.x), weight_at(table_from, d.y), weight_at(table_from, d.z), weight_at(table_from, d.w));
  return select(vec4f(), w, vec4u(key, key + 1u, key + 2u, key + 3u) < vec4u(last));
}

// Where a head's weights begin; one table may serve all heads.
fn table_of(h: u32) -> u32 { return params.table_at + select(0u, h * params.t, params.tables > 1u); }
