// Which rows and keys belong together in graph_attention: those of a graph of the batch. Graph g has the nodes from `offsets[g]` to
// `offsets[g + 1]` (the first from 0), and its mask, row by row, begins at `blocks[g]`; nodes behind the last graph see nothing.

fn offset(graph: u32) -> u32 { return select(min(offsets[params.offsets_at + graph], params.n), 0u, graph == 0u); }

// Blocks of `size` rows: those of a graph begin at number (first node / size) + g, so that every graph has room for its last, partial
// block, and a block's graph is found by bisection.
fn blocks_of(size: u32) -> u32 { return params.n / size + params.s; }

fn place_of(batch: u32, block: u32, size: u32) -> Place {
  var low = 0u;
  var high = params.s - 1u;
  // 32 rounds find any graph; with few graphs, fewer.
  while (low < high) {
    let middle = (low + high + 1u) / 2u;
    let reached = offset(middle) / size + middle <= block;
    low = select(low, middle, reached);
    high = select(middle - 1u, high, reached);
  }
  let graph = low;
  let first = offset(graph);
  var last = params.n;
  if (graph + 1u < params.s) { last = max(offset(graph + 1u), first); }
  let row = first + (block - min(block, first / size + graph)) * size;
  var place = Place(row, min(size, last - min(row, last)), first, last, 0u, 0u, 0u, 0u);
  if (HAS_MASK) {
    let head = select(0u, batch % params.h * params.z, params.masks > 1u);
    place.table = params.mask_at + head;
    place.mask = blocks[params.blocks_at + min(graph, params.s - 1u)];
  }
  // What is left over behind the last graph has no keys.
  place.last = select(last, first, graph + 1u >= params.s);
  return place;
}

fn query_of(local_batch: u32, row: u32) -> u32 { return local_batch * params.n + row; }

fn key_is_kept(place: Place, key: u32) -> bool { return true; }

fn row_is_asked(place: Place, row: u32) -> bool { return true; }

// Without branches, which cost software drivers more than a load: what is outside is read elsewhere and not taken.
fn mask_at(place: Place, at: u32, inside: bool) -> f32 {
  var w = 1.0;
  if (HAS_MASK) { w = mask[place.table + min(at, params.z - 1u)]; }
  return select(0.0, w, inside && (!HAS_MASK || at < params.z));
}

fn mask_of(place: Place, row: u32, key: u32) -> vec4f {
  let at = place.mask + (row - place.first) * (place.last - place.first) + key - place.first;
  return vec4f(mask_at(place, at, key < place.last), mask_at(place, at + 1u, key + 1u < place.last),
    mask_at(place, at + 2u, key + 2u < place.last), mask_at(place, at + 3u, key + 3u < place.last));
}
