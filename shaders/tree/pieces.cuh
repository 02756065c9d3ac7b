// Members of the pieces of a forest, and the rows of channels at their spots: one channel a thread, or four where FOUR says so.
typedef Words<FOUR>::Type Value;
constexpr u32 LANES = FOUR ? 4u : 1u;

// A piece's slice begins at turn `first`; the piece has `count` members and is number `place` of the slice.
struct Members {
  u32 first, count, place;
};

// Turns past the end of the list are left out, and so is everything where there is no spot; nothing is read there.
__device__ inline Members members_of(const Params& params, const u32* pieces, u32 piece) {
  const u32 first = min(pieces[4u * size_t(piece)], params.r);
  const u32 word = pieces[4u * size_t(piece) + 1u];
  const u32 count = params.n == 0u ? 0u : min(word & 65535u, params.r - first);
  return {first, count, word >> 16u};
}

// The spot of a member: neighbouring pieces have neighbouring spots.
__device__ inline u32 spot_of(const Params& params, const u32* turns, Members members, u32 member) {
  return min(turns[size_t(members.first) + member] + members.place, params.n - 1u);
}

__device__ inline u32 row_of(const Params& params, const u32* links, u32 spot) {
  return min(links[2u * size_t(spot)], params.n - 1u);
}
