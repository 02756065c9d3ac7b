// Tokens of up to 64 coordinates (D4 vec4s) in registers, which are written out because a dynamically indexed array would live in
// memory; and tokens that all threads need, of which each thread of a subgroup loads a part.
struct Token {
  v0: vec4f, v1: vec4f, v2: vec4f, v3: vec4f, v4: vec4f, v5: vec4f, v6: vec4f, v7: vec4f,
  v8: vec4f, v9: vec4f, v10: vec4f, v11: vec4f, v12: vec4f, v13: vec4f, v14: vec4f, v15: vec4f,
}

// A token from the vec4s of it that the first eight lanes hold: lane i the i-th in `low`, the (8 + i)-th in `high`.
fn gathered(low: vec4f, high: vec4f) -> Token {
  var t = Token();
  t.v0 = subgroupBroadcast(low, 0u);
  if (D4 > 1u) { t.v1 = subgroupBroadcast(low, 1u); }
  if (D4 > 2u) { t.v2 = subgroupBroadcast(low, 2u); }
  if (D4 > 3u) { t.v3 = subgroupBroadcast(low, 3u); }
  if (D4 > 4u) { t.v4 = subgroupBroadcast(low, 4u); }
  if (D4 > 5u) { t.v5 = subgroupBroadcast(low, 5u); }
  if (D4 > 6u) { t.v6 = subgroupBroadcast(low, 6u); }
  if (D4 > 7u) { t.v7 = subgroupBroadcast(low, 7u); }
  if (D4 > 8u) { t.v8 = subgroupBroadcast(high, 0u); }
  if (D4 > 9u) { t.v9 = subgroupBroadcast(high, 1u); }
  if (D4 > 10u) { t.v10 = subgroupBroadcast(high, 2u); }
  if (D4 > 11u) { t.v11 = subgroupBroadcast(high, 3u); }
  if (D4 > 12u) { t.v12 = subgroupBroadcast(high, 4u); }
  if (D4 > 13u) { t.v13 = subgroupBroadcast(high, 5u); }
  if (D4 > 14u) { t.v14 = subgroupBroadcast(high, 6u); }
  if (D4 > 15u) { t.v15 = subgroupBroadcast(high, 7u); }
  return t;
}

fn gap(x: Token, y: Token) -> f32 {
  var s = gap4(x.v0, y.v0);
  if (D4 > 1u) { s += gap4(x.v1, y.v1); }
  if (D4 > 2u) { s += gap4(x.v2, y.v2); }
  if (D4 > 3u) { s += gap4(x.v3, y.v3); }
  if (D4 > 4u) { s += gap4(x.v4, y.v4); }
  if (D4 > 5u) { s += gap4(x.v5, y.v5); }
  if (D4 > 6u) { s += gap4(x.v6, y.v6); }
  if (D4 > 7u) { s += gap4(x.v7, y.v7); }
  if (D4 > 8u) { s += gap4(x.v8, y.v8); }
  if (D4 > 9u) { s += gap4(x.v9, y.v9); }
  if (D4 > 10u) { s += gap4(x.v10, y.v10); }
  if (D4 > 11u) { s += gap4(x.v11, y.v11); }
  if (D4 > 12u) { s += gap4(x.v12, y.v12); }
  if (D4 > 13u) { s += gap4(x.v13, y.v13); }
  if (D4 > 14u) { s += gap4(x.v14, y.v14); }
  if (D4 > 15u) { s += gap4(x.v15, y.v15); }
  return (s.x + s.y) + (s.z + s.w);
}

// A token whose first texel is `at`.
fn token(at: u32) -> Token {
  var t = Token();
  t.v0 = texel(at);
  if (D4 > 1u) { t.v1 = texel(at + 1u); }
  if (D4 > 2u) { t.v2 = texel(at + 2u); }
  if (D4 > 3u) { t.v3 = texel(at + 3u); }
  if (D4 > 4u) { t.v4 = texel(at + 4u); }
  if (D4 > 5u) { t.v5 = texel(at + 5u); }
  if (D4 > 6u) { t.v6 = texel(at + 6u); }
  if (D4 > 7u) { t.v7 = texel(at + 7u); }
  if (D4 > 8u) { t.v8 = texel(at + 8u); }
  if (D4 > 9u) { t.v9 = texel(at + 9u); }
  if (D4 > 10u) { t.v10 = texel(at + 10u); }
  if (D4 > 11u) { t.v11 = texel(at + 11u); }
  if (D4 > 12u) { t.v12 = texel(at + 12u); }
  if (D4 > 13u) { t.v13 = texel(at + 13u); }
  if (D4 > 14u) { t.v14 = texel(at + 14u); }
  if (D4 > 15u) { t.v15 = texel(at + 15u); }
  return t;
}
