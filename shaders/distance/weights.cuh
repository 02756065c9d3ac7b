// Weights by distance. Distances lie 4 (BITS = 8) or 2 (BITS = 16) to a word, rows begin at a word; a distance that the table
// does not hold, the greatest number (no way) among them, weighs 0.

__device__ inline float weight_of(const float* table, u32 entries, u32 distance) {
  return distance < entries ? table[distance] : 0.0f;
}

// Of the keys `key` to `key + 3` of a row of `last` distances, where `key` is a multiple of 4; 0 from `last` on.
__device__ inline void weights_of(float (&w)[4], const float* table, u32 entries, const u32* row, u32 key, u32 last) {
  u32 low = 0xffffffffu;
  u32 high = 0xffffffffu;
  if (key < last) { low = row[BITS == 8u ? key / 4u : key / 2u]; }
  if (BITS == 16u && key + 2u < last) { high = row[key / 2u + 1u]; }
#pragma unroll
  for (u32 i = 0u; i < 4u; i++) {
    const u32 word = BITS == 16u && i >= 2u ? high : low;
    const u32 distance = BITS == 8u ? word >> (8u * i) & 255u : word >> (16u * (i % 2u)) & 65535u;
    w[i] = key + i < last ? weight_of(table, entries, distance) : 0.0f;
  }
}
