// Masks, segments and decays of a scan, as one head has them: which keys count, how far a token sees, powers of its decay.
struct Tokens {
  const u8* mask; // [n], where there is one
  const u32* reach; // [n, 2], where there are segments
  const float* powers; // [t], where there is a decay
};

__device__ inline Tokens tokens_of(
    const Params& params, u32 batch, const float* powers, const u8* key_mask, const u32* reach) {
  const u32 b = batch / params.h;
  const u32 h = batch % params.h;
  Tokens tokens = {};
  if (HAS_KEY_MASK) { tokens.mask = key_mask + size_t(b) * params.key_mask_b + size_t(h) * params.key_mask_h; }
  if (HAS_REACH) { tokens.reach = reach + size_t(b) * params.reach_b + size_t(h) * params.reach_h; }
  if (HAS_POWERS) { tokens.powers = powers + size_t(h % params.heads) * params.t; }
  return tokens;
}

// Keys of token i's segment at or before it (side 0) or at or after it (side 1), itself included.
__device__ inline u32 reach_of(const Tokens& tokens, u32 i, u32 side) {
  return HAS_REACH ? tokens.reach[2u * size_t(i) + side] : 0xffffffffu;
}

// Whether key j is neither masked nor of no segment.
__device__ inline bool key_counts(const Tokens& tokens, u32 j) {
  if (HAS_KEY_MASK) {
    if (tokens.mask[j] == 0u) { return false; }
  }
  return !HAS_REACH || tokens.reach[2u * size_t(j)] != 0u;
}

// decay^distance; 1 where there is no decay.
__device__ inline float power(const Tokens& tokens, u32 distance) { return HAS_POWERS ? tokens.powers[distance] : 1.0f; }
