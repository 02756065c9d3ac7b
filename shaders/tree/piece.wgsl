// The members of a piece. Places past the end of the lists are left out; nothing is read there.
fn members_of(piece: u32) -> vec2u {
  let end = min(pieces[params.pieces_at + 4u * piece + 1u], params.n);
  return vec2u(min(pieces[params.pieces_at + 4u * piece], end), end);
}
