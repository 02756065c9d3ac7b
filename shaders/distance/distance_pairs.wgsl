// Which rows and keys belong together in distance_attention: all.
fn blocks_of(size: u32) -> u32 { return (params.m + size - 1u) / size; }

fn place_of(batch: u32, block: u32, size: u32) -> Place {
  let b = batch / params.h;
  let h = batch % params.h;
  let row = block * size;
  return Place(row, min(size, params.m - row), 0u, params.n,
    params.distances_at + b * params.distances_b + h * params.distances_h, table_of(h),
    params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h,
    params.query_mask_at + b * params.query_mask_b + h * params.query_mask_h);
}

fn query_of(local_batch: u32, row: u32) -> u32 { return local_batch * params.m + row; }

fn key_is_kept(place: Place, key: u32) -> bool {
  var kept = true;
  if (HAS_KEY_MASK) { kept = byte_of(key_mask[(place.keys + key) >> 2u], place.keys + key) != 0u; }
  return kept;
}

fn row_is_asked(place: Place, row: u32) -> bool {
  var asked = true;
  if (HAS_QUERY_MASK) { asked = byte_of(query_mask[(place.queries + row) >> 2u], place.queries + row) != 0u; }
  return asked;
}

// The weights of four keys from `key`, a multiple of 4, on.
fn mask_of(place: Place, row: u32, key: u32) -> vec4f {
  if (key >= place.last) { return vec4f(); }
  var w = weights_of(place.table, place.mask + row * params.w, key, place.last);
  if (HAS_KEY_MASK) {
    let end = params.n - 1u;
    w = select(vec4f(), w, vec4<bool>(key_is_kept(place, key), key_is_kept(place, min(key + 1u, end)),
      key_is_kept(place, min(key + 2u, end)), key_is_kept(place, min(key + 3u, end))));
  }
  return w;
}
