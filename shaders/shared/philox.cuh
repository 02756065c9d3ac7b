// Philox4x32-10: four words from a counter and a key, the same on every backend.
__device__ inline uint4 philox(uint4 counter, u32 key_low, u32 key_high) {
  uint4 word = counter;
  for (u32 round = 0u; round < 10u; round++) {
    const u32 a_high = __umulhi(0xd2511f53u, word.x);
    const u32 a_low = 0xd2511f53u * word.x;
    const u32 c_high = __umulhi(0xcd9e8d57u, word.z);
    const u32 c_low = 0xcd9e8d57u * word.z;
    word = make_uint4(c_high ^ word.y ^ key_low, c_low, a_high ^ word.w ^ key_high, a_low);
    key_low += 0x9e3779b9u;
    key_high += 0xbb67ae85u;
  }
  return word;
}
