// The members of a piece: its slice's first turn, how many they are, its place in the slice. Turns past the end of the list are left
// out; nothing is read there.
fn members_of(piece: u32) -> vec3u {
  let first = min(pieces[params.pieces_at + 4u * piece], params.r);
  let word = pieces[params.pieces_at + 4u * piece + 1u];
  return vec3u(first, min(word & 65535u, params.r - first), word >> 16u);
}

// The spot of a member: neighbouring pieces have neighbouring spots.
fn spot_of(members: vec3u, member: u32) -> u32 {
  return min(turns[params.turns_at + members.x + member] + members.z, params.n - 1u);
}

fn row_of(spot: u32) -> u32 {
  return min(links[params.links_at + 2u * spot], params.n - 1u);
}
