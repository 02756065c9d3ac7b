// Which keys a query sees through a table of relative positions. Tokens are `globals` global ones and then a grid of
// lines in raster order. Along an axis of side s, query i and key j meet at place i - j + s - 1 of the table, on a torus
// (TORUS has a bit per axis) at (i - j) mod s; pairs outside the places `first` to `last` of any axis are not seen. With
// `segment` there is one line, and a query sees the keys of its segment only. Functions have one exit each: SwiftShader takes
// minutes over a shader with dozens of inlined early returns.

struct Grid {
  sides: vec3i,
  // Entries of the table per axis.
  places: vec3i,
  // Support of the table, in places.
  first: vec3i,
  last: vec3i,
  // Tokens in a line.
  line: u32,
}

fn whole_grid() -> Grid {
  var grid: Grid;
  let side = select(params.n3, params.n - params.globals, params.n3 == 0u);
  grid.sides = vec3i(i32(params.n1), i32(params.n2), i32(side));
  let torus = vec3<bool>((TORUS & 1u) != 0u, (TORUS & 2u) != 0u, (TORUS & 4u) != 0u);
  grid.places = select(2 * grid.sides - 1, grid.sides, torus);
  let end = vec3u(grid.places);
  grid.first = vec3i(min(vec3u(params.first1, params.first2, params.first3), end));
  grid.last = vec3i(min(vec3u(params.last1, params.last2, params.last3), end - 1u));
  grid.line = side;
  if (HAS_SEGMENT) { grid.line = params.n; }
  return grid;
}

// Coordinates of a token that is not global.
fn coordinates(grid: Grid, token: u32) -> vec3i {
  let at = token - params.globals;
  let line = at / grid.line;
  let side = u32(grid.sides.y);
  return vec3i(i32(line / side), i32(line % side), i32(at % grid.line));
}

fn token_at(grid: Grid, at: vec3i) -> u32 {
  return params.globals + (u32(at.x) * u32(grid.sides.y) + u32(at.y)) * grid.line + u32(at.z);
}

// The segment of a token: its first key and the one after its last.
fn segment_of(token: u32) -> vec2u {
  var found = vec2u(0u, params.n);
  if (HAS_SEGMENT) {
    let at = params.segment_at + 2u * token;
    found = vec2u(segment[at], min(segment[at + 1u], params.n));
  }
  return found;
}

// First key and number of keys along one axis that queries `low` to `high` see; past the side it goes on at 0.
fn seen_on_axis(low: i32, high: i32, side: i32, first: i32, last: i32, torus: bool) -> vec2i {
  var start = max(0, low + side - 1 - last);
  var count = min(side - 1, high + side - 1 - first) - start + 1;
  if (torus) {
    count = high - low + last - first + 1;
    start = low - last;
    if (start < 0) { start += side; }
    if (count >= side) {
      start = 0;
      count = side;
    }
  }
  if (first > last) { count = 0; }
  return vec2i(start, max(0, count));
}

struct Seen {
  start: vec3i,
  count: vec3i,
}

// The keys of the grid that some token between `low` and `high` (in every coordinate) sees, of those in `within`.
fn seen_by(grid: Grid, low: vec3i, high: vec3i, within: vec2u) -> Seen {
  let x = seen_on_axis(low.x, high.x, grid.sides.x, grid.first.x, grid.last.x, (TORUS & 1u) != 0u);
  let y = seen_on_axis(low.y, high.y, grid.sides.y, grid.first.y, grid.last.y, (TORUS & 2u) != 0u);
  var z = seen_on_axis(low.z, high.z, grid.sides.z, grid.first.z, grid.last.z, (TORUS & 4u) != 0u);
  if (HAS_SEGMENT) {
    let start = max(i32(within.x), low.z + grid.sides.z - 1 - grid.last.z);
    let end = min(i32(within.y), high.z + grid.sides.z - grid.first.z);
    z = vec2i(start, select(0, max(0, end - start), grid.first.z <= grid.last.z));
  }
  return Seen(vec3i(x.x, y.x, z.x), vec3i(x.y, y.y, z.y));
}

// Coordinates past the side of a torus go on at 0.
fn wrapped(grid: Grid, at: vec3i) -> vec3i {
  let torus = vec3<bool>((TORUS & 1u) != 0u, (TORUS & 2u) != 0u, (TORUS & 4u) != 0u);
  let less = select(vec3i(), grid.sides, torus);
  return at - select(vec3i(), less, at >= grid.sides);
}

// Where two tokens of the grid meet in the table, per axis.
fn place_of(grid: Grid, query: vec3i, key: vec3i) -> vec3i {
  let offset = query - key;
  var place = offset + grid.sides - 1;
  if ((TORUS & 1u) != 0u) { place.x = select(offset.x, offset.x + grid.sides.x, offset.x < 0); }
  if ((TORUS & 2u) != 0u) { place.y = select(offset.y, offset.y + grid.sides.y, offset.y < 0); }
  if ((TORUS & 4u) != 0u) { place.z = select(offset.z, offset.z + grid.sides.z, offset.z < 0); }
  return place;
}

fn in_support(grid: Grid, place: vec3i) -> bool {
  return all(place >= grid.first) && all(place <= grid.last);
}

// The table's entry at a place in its support. `table_from` is the head's first entry.
fn entry_at(grid: Grid, table_from: u32, place: vec3i) -> f32 {
  var entry = 1.0;
  if (HAS_TABLE) { entry = table[table_from + u32((place.x * grid.places.y + place.y) * grid.places.z + place.z)]; }
  return entry;
}

// Where the table of a head begins.
fn table_of(head: u32) -> u32 {
  var start = 0u;
  if (HAS_TABLE) { start = params.table_at + head % params.tables * params.t; }
  return start;
}

// Whether a key takes part at all; what others hold must not be used.
fn key_is_kept(key_mask_from: u32, key: u32) -> bool {
  var kept = true;
  if (HAS_SEGMENT) {
    let own = segment_of(key);
    kept = own.x < own.y;
  }
  if (HAS_KEY_MASK) {
    let at = key_mask_from + key;
    kept = kept && ((key_mask[at >> 2u] >> ((at & 3u) * 8u)) & 0xffu) != 0u;
  }
  return kept;
}

// Keys that one query visits: first the global tokens, then a block of the grid. A global query visits all.
struct Visits {
  query: vec3i,
  // Keys 0 to `plain` have weight 1.
  plain: u32,
  start: vec3i,
  count: vec3u,
  total: u32,
}

fn visits_of(grid: Grid, row: u32) -> Visits {
  var visits: Visits;
  visits.plain = params.n;
  if (row >= params.globals) {
    visits.plain = params.globals;
    visits.query = coordinates(grid, row);
    let seen = seen_by(grid, visits.query, visits.query, segment_of(row));
    visits.start = seen.start;
    visits.count = vec3u(seen.count);
  }
  visits.total = visits.plain + visits.count.x * visits.count.y * visits.count.z;
  return visits;
}

struct Visit {
  key: u32,
  weight: f32,
}

// Visit number `step` of a query.
fn visit(grid: Grid, visits: Visits, table_from: u32, step: u32) -> Visit {
  var found = Visit(step, 1.0);
  if (step >= visits.plain) {
    let rest = step - visits.plain;
    let line = rest / visits.count.z;
    let block = vec3u(line / visits.count.y, line % visits.count.y, rest % visits.count.z);
    let key = wrapped(grid, visits.start + vec3i(block));
    found = Visit(token_at(grid, key), entry_at(grid, table_from, place_of(grid, visits.query, key)));
  }
  return found;
}
