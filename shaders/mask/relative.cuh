// Which keys a query sees through a table of relative positions. Tokens are `globals` global ones and then a grid of lines in
// raster order. Along an axis of side s, query i and key j meet at place i - j + s - 1 of the table, on a torus (TORUS has a bit
// per axis) at (i - j) mod s; pairs outside the places `first` to `last` of any axis are not seen. With `segment` [n, 2] there is
// one line, and a query sees the keys of its segment only.
constexpr bool TORUS_X = (TORUS & 1u) != 0u;
constexpr bool TORUS_Y = (TORUS & 2u) != 0u;
constexpr bool TORUS_Z = (TORUS & 4u) != 0u;

// Along the three axes.
struct Triple { int x, y, z; };

struct Range { u32 begin, end; };

struct Grid {
  Triple sides;
  Triple places; // entries of the table
  Triple first;  // support of the table, in places
  Triple last;
  u32 globals;
  u32 line; // tokens of a line
};

__device__ inline Grid whole_grid(const Params& params) {
  Grid grid;
  const u32 side = params.n3 == 0u ? params.n - params.globals : params.n3;
  grid.sides = {int(params.n1), int(params.n2), int(side)};
  grid.places.x = TORUS_X ? grid.sides.x : 2 * grid.sides.x - 1;
  grid.places.y = TORUS_Y ? grid.sides.y : 2 * grid.sides.y - 1;
  grid.places.z = TORUS_Z ? grid.sides.z : 2 * grid.sides.z - 1;
  // Places past the table's end mean its end.
  grid.first = {int(min(params.first1, u32(grid.places.x))), int(min(params.first2, u32(grid.places.y))),
                int(min(params.first3, u32(grid.places.z)))};
  grid.last = {int(min(params.last1, u32(grid.places.x) - 1u)), int(min(params.last2, u32(grid.places.y) - 1u)),
               int(min(params.last3, u32(grid.places.z) - 1u))};
  grid.globals = params.globals;
  grid.line = HAS_SEGMENT ? params.n : side;
  return grid;
}

// Coordinates of a token that is not global.
__device__ inline Triple coordinates(const Grid& grid, u32 token) {
  const u32 at = token - grid.globals;
  const u32 line = at / grid.line;
  const u32 side = u32(grid.sides.y);
  return {int(line / side), int(line % side), int(at % grid.line)};
}

__device__ inline u32 token_at(const Grid& grid, Triple at) {
  return grid.globals + (u32(at.x) * u32(grid.sides.y) + u32(at.y)) * grid.line + u32(at.z);
}

// The segment of a token, of `n`: its first key and the one after its last.
__device__ inline Range segment_of(const u32* segment, u32 n, u32 token) {
  if (!HAS_SEGMENT) { return {0u, n}; }
  return {segment[2u * size_t(token)], min(segment[2u * size_t(token) + 1u], n)};
}

// First key and number of keys along one axis.
struct OnAxis { int start, count; };

// What queries `low` to `high` see along one axis; past the side it goes on at 0.
__device__ inline OnAxis seen_on_axis(int low, int high, int side, int first, int last, bool torus) {
  int start = max(0, low + side - 1 - last);
  int count = min(side - 1, high + side - 1 - first) - start + 1;
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
  return {start, max(0, count)};
}

struct Seen { Triple start, count; };

// The keys of the grid that some token between `low` and `high` (in every coordinate) sees, of those in `within`.
__device__ inline Seen seen_by(const Grid& grid, Triple low, Triple high, Range within) {
  const OnAxis x = seen_on_axis(low.x, high.x, grid.sides.x, grid.first.x, grid.last.x, TORUS_X);
  const OnAxis y = seen_on_axis(low.y, high.y, grid.sides.y, grid.first.y, grid.last.y, TORUS_Y);
  OnAxis z = seen_on_axis(low.z, high.z, grid.sides.z, grid.first.z, grid.last.z, TORUS_Z);
  if (HAS_SEGMENT) {
    const int start = max(int(within.begin), low.z + grid.sides.z - 1 - grid.last.z);
    const int end = min(int(within.end), high.z + grid.sides.z - grid.first.z);
    z = {start, grid.first.z <= grid.last.z ? max(0, end - start) : 0};
  }
  return {{x.start, y.start, z.start}, {x.count, y.count, z.count}};
}

// Where two coordinates of an axis meet in the table.
__device__ inline int place_on_axis(int query, int key, int side, bool torus) {
  const int offset = query - key;
  return torus ? (offset < 0 ? offset + side : offset) : offset + side - 1;
}

__device__ inline Triple place_of(const Grid& grid, Triple query, Triple key) {
  return {place_on_axis(query.x, key.x, grid.sides.x, TORUS_X), place_on_axis(query.y, key.y, grid.sides.y, TORUS_Y),
          place_on_axis(query.z, key.z, grid.sides.z, TORUS_Z)};
}

__device__ inline bool in_support(const Grid& grid, Triple place) {
  return place.x >= grid.first.x && place.x <= grid.last.x && place.y >= grid.first.y && place.y <= grid.last.y
    && place.z >= grid.first.z && place.z <= grid.last.z;
}

// The entry of a head's table at a place in its support.
__device__ inline float entry_at(const Grid& grid, const float* table, Triple place) {
  if (!HAS_TABLE) { return 1.0f; }
  return table[(u32(place.x) * u32(grid.places.y) + u32(place.y)) * u32(grid.places.z) + u32(place.z)];
}

// The table of a head.
__device__ inline const float* table_of(const Params& params, const float* table, u32 head) {
  return HAS_TABLE ? table + size_t(head % params.h % params.tables) * params.t : table;
}

// Whether a key takes part at all; what others hold must not be used. `key_mask` is that of the key's head.
__device__ inline bool key_is_kept(const u8* key_mask, const u32* segment, u32 n, u32 key) {
  bool kept = true;
  if (HAS_SEGMENT) {
    const Range own = segment_of(segment, n, key);
    kept = own.begin < own.end;
  }
  if (HAS_KEY_MASK) { kept = kept && key_mask[key] != 0u; }
  return kept;
}

// Keys that one query visits: first the global tokens, then a block of the grid. A global query visits all.
struct Visits {
  Triple query;
  u32 plain; // keys 0 to `plain` have weight 1
  Triple start, count;
  u32 total;
};

__device__ inline Visits visits_of(const Grid& grid, const u32* segment, u32 n, u32 row) {
  Visits visits;
  visits.query = visits.start = visits.count = {0, 0, 0};
  visits.plain = n;
  if (row >= grid.globals) {
    visits.plain = grid.globals;
    visits.query = coordinates(grid, row);
    const Seen seen = seen_by(grid, visits.query, visits.query, segment_of(segment, n, row));
    visits.start = seen.start;
    visits.count = seen.count;
  }
  visits.total = visits.plain + u32(visits.count.x) * u32(visits.count.y) * u32(visits.count.z);
  return visits;
}

struct Visit {
  u32 key;
  float weight;
};

// Visit number `step` of a query.
__device__ inline Visit visit_of(const Grid& grid, const Visits& visits, const float* table, u32 step) {
  if (step < visits.plain) { return {step, 1.0f}; }
  const u32 rest = step - visits.plain;
  const u32 line = rest / u32(visits.count.z);
  Triple key = {visits.start.x + int(line / u32(visits.count.y)), visits.start.y + int(line % u32(visits.count.y)),
                visits.start.z + int(rest % u32(visits.count.z))};
  // Past the side of a torus it goes on at 0.
  if (TORUS_X && key.x >= grid.sides.x) { key.x -= grid.sides.x; }
  if (TORUS_Y && key.y >= grid.sides.y) { key.y -= grid.sides.y; }
  if (TORUS_Z && key.z >= grid.sides.z) { key.z -= grid.sides.z; }
  return {token_at(grid, key), entry_at(grid, table, place_of(grid, visits.query, key))};
}
