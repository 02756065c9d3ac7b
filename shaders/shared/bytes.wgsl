// Byte `at` of a mask that is stored four to a word, given the word it is in.
fn byte_of(word: u32, at: u32) -> u32 {
  return (word >> (8u * (at & 3u))) & 255u;
}
