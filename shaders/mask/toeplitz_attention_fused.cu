// Sums of masked attention with the transforms in shared memory: out[s, i, c] = sum over features l of slice s of q[i, l] times
// the sum over j of M(i - j) k[j, l] [v, 1][j, c], M the mask whose spectrum is given. q, k [b, h, n, r], v [b, h, n, e],
// spectrum [g, l1, l2, l3, 2] with 1/L included, roots [t, 2], key_mask [b, h, n], out [b, h, s, n, e + 1].
//
// A block takes two value columns (or the denominator's) of one head and slice: lift, transform, filter, transform back and
// contract, feature after feature. A place of the box L1 x L2 x L3 (the last axis fastest) is one complex number, so two real
// channels share a transform. Forward passes decimate in frequency: they leave the digits of an axis reversed, where the passes
// back, which decimate in time, want them. No pass moves a number, so one barrier parts two passes, and none is needed between
// two features: the last pass reads what the same thread writes in the first. An inverse transform is a forward one between two
// exchanges of the parts.
//
// Nothing is copied to shared memory ahead: queries, keys and values of a place stay with the thread that lifts and contracts it,
// in registers, and four features are read at a time, for which there are four rounds of passes to do.

// Blocks that a multiprocessor has to hold. Left to itself, the compiler spills for the sake of one more.
constexpr u32 RESIDENT = 256u / THREADS;
constexpr u32 NONE = 0xffffffffu;

// Butterflies of 1 << BITS numbers that lie 1 << LO places apart along an axis.
template <u32 FROM, u32 WIDTH, u32 ALONG> struct Pass {
  static constexpr u32 LO = FROM;
  static constexpr u32 BITS = WIDTH;
  static constexpr u32 AXIS = ALONG;
  static constexpr u32 COUNT = 1u << BITS;
  static constexpr u32 HALF = COUNT > 1u ? COUNT / 2u : 1u;
  // First bit of the axis in the number of a place, the first one behind it, and its tokens.
  static constexpr u32 START = AXIS == 3u ? 0u : AXIS == 2u ? A3 : A3 + A2;
  static constexpr u32 END = AXIS == 3u ? A3 : AXIS == 2u ? A3 + A2 : A3 + A2 + A1;
  static constexpr u32 SIDE = AXIS == 3u ? N3 : AXIS == 2u ? N2 : N1;
  // Whether it is the first of its axis forward and the last one back: only its first SIDE numbers are not padding.
  static constexpr bool TOP = LO + BITS == END;
  static constexpr u32 BUTTERFLIES = PLACES >> BITS;
  static constexpr u32 ROUNDS = (BUTTERFLIES + THREADS - 1u) / THREADS;
};

template <u32 NUMBER> struct PassOf { typedef Pass<LO0, BITS0, AXIS0> type; };
template <> struct PassOf<1u> { typedef Pass<LO1, BITS1, AXIS1> type; };
template <> struct PassOf<2u> { typedef Pass<LO2, BITS2, AXIS2> type; };
template <> struct PassOf<3u> { typedef Pass<LO3, BITS3, AXIS3> type; };
template <> struct PassOf<4u> { typedef Pass<LO4, BITS4, AXIS4> type; };
template <> struct PassOf<5u> { typedef Pass<LO5, BITS5, AXIS5> type; };
typedef PassOf<0u>::type First;
typedef PassOf<PASSES - 1u>::type Last;

// Tokens that a thread lifts in the first pass and contracts in the last, and factors that it multiplies by between.
constexpr u32 HELD = First::ROUNDS * First::HALF;
constexpr u32 FACTORS = Last::ROUNDS * Last::COUNT;

struct Token {
  float4 keys, queries; // four features
  float2 values, sums;
};

__device__ inline u32 coordinate(u32 place, u32 axis) {
  const u32 start = axis == 3u ? 0u : axis == 2u ? A3 : A3 + A2;
  const u32 bits = axis == 3u ? A3 : axis == 2u ? A2 : A1;
  return (place >> start) & ((1u << bits) - 1u);
}

// First place of butterfly `number`.
template <typename P> __device__ inline u32 first_place(u32 number) {
  return ((number >> P::LO) << (P::LO + P::BITS)) | (number & ((1u << P::LO) - 1u));
}

// Lines of padding along a later axis are zeros before their own axis is transformed, and wanted by nobody after it.
template <typename P> __device__ inline bool is_line_of_tokens(u32 place) {
  if (P::AXIS == 3u) { return coordinate(place, 2u) < N2 && coordinate(place, 1u) < N1; }
  return P::AXIS == 2u ? coordinate(place, 1u) < N1 : true;
}

// Where a place lies in shared memory: neighbouring threads that work on places 8 apart would meet in the same bank. Places that
// differ in disjoint bits may be combined before or after: slot(a | b) = slot(a) ^ slot(b).
__device__ inline u32 slot(u32 place) { return place ^ ((place >> 4) & 15u); }

// The transform of numbers of which the second half is 0.
template <u32 COUNT> __device__ inline void dft_of_half(const float2 (&x)[COUNT / 2u], float2 (&z)[COUNT]) {
  float2 even[COUNT / 2u], odd[COUNT / 2u];
#pragma unroll
  for (u32 d = 0u; d < COUNT / 2u; d++) {
    even[d] = x[d];
    odd[d] = rotated(x[d], d * (64u / COUNT));
  }
  dft(even);
  dft(odd);
#pragma unroll
  for (u32 d = 0u; d < COUNT / 2u; d++) {
    z[2u * d] = even[d];
    z[2u * d + 1u] = odd[d];
  }
}

// Number d times w^(d j), w the first root of the part of the axis that this pass and those behind it work on.
template <typename P> __device__ inline void twiddle(float2 (&z)[P::COUNT], u32 place, const float* roots) {
  if (P::LO == P::START) { return; }
  const u32 j = (place >> P::START) & ((1u << (P::LO - P::START)) - 1u);
  const u32 at = j << (ROOTS - (P::LO + P::BITS - P::START));
  float2 powers[P::COUNT];
#pragma unroll
  for (u32 d = 1u; d < P::COUNT; d++) {
    const u32 top = d < 2u ? 1u : d < 4u ? 2u : 4u;
    powers[d] = top == d ? make_float2(roots[2u * d * at], roots[2u * d * at + 1u]) : product(powers[top], powers[d - top]);
    z[d] = times(z[d], powers[d]);
  }
}

// All numbers of a butterfly.
template <typename P> __device__ inline void load(float2 (&z)[P::COUNT], u32 place, const float2* numbers) {
#pragma unroll
  for (u32 d = 0u; d < P::COUNT; d++) { z[d] = numbers[slot(place) ^ slot(d << P::LO)]; }
}

// The transform of a butterfly on the way forward; padding counts as 0.
template <typename P> __device__ inline void load_forward(float2 (&z)[P::COUNT], u32 place, const float2* numbers) {
  if constexpr (P::TOP && P::BITS > 0u) {
    float2 x[P::HALF];
#pragma unroll
    for (u32 d = 0u; d < P::HALF; d++) {
      x[d] = coordinate(place + (d << P::LO), P::AXIS) < P::SIDE ? numbers[slot(place) ^ slot(d << P::LO)] : float2();
    }
    dft_of_half<P::COUNT>(x, z);
  } else {
    load<P>(z, place, numbers);
    dft(z);
  }
}

// Stores a butterfly; of those that end an axis only the first half, in which all tokens lie.
template <typename P> __device__ inline void store(const float2 (&z)[P::COUNT], u32 place, bool ends, float2* numbers) {
#pragma unroll
  for (u32 d = 0u; d < P::COUNT; d++) {
    if (d < P::HALF || !(ends && P::TOP)) { numbers[slot(place) ^ slot(d << P::LO)] = z[d]; }
  }
}

template <typename P> __device__ inline void forward(float2* numbers, const float* roots) {
  for (u32 number = threadIdx.x; number < P::BUTTERFLIES; number += THREADS) {
    const u32 place = first_place<P>(number);
    if (is_line_of_tokens<P>(place)) {
      float2 z[P::COUNT];
      load_forward<P>(z, place, numbers);
      twiddle<P>(z, place, roots);
      store<P>(z, place, false, numbers);
    }
  }
  __syncthreads(); // the next pass reads what other threads wrote
}

template <typename P> __device__ inline void backward(float2* numbers, const float* roots) {
  for (u32 number = threadIdx.x; number < P::BUTTERFLIES; number += THREADS) {
    const u32 place = first_place<P>(number);
    if (is_line_of_tokens<P>(place)) {
      float2 z[P::COUNT];
      load<P>(z, place, numbers);
      twiddle<P>(z, place, roots);
      dft(z);
      store<P>(z, place, true, numbers);
    }
  }
  __syncthreads(); // the next pass reads what other threads wrote
}

// The last pass forward, the spectrum and the first pass back, on the same places.
__device__ inline void middle(float2* numbers, const float2 (&factors)[FACTORS]) {
#pragma unroll
  for (u32 round = 0u; round < Last::ROUNDS; round++) {
    const u32 number = threadIdx.x + round * THREADS;
    if (number < Last::BUTTERFLIES) {
      const u32 place = first_place<Last>(number);
      float2 z[Last::COUNT];
      load_forward<Last>(z, place, numbers);
#pragma unroll
      for (u32 d = 0u; d < Last::COUNT; d++) { z[d] = swapped(times(z[d], factors[round * Last::COUNT + d])); }
      dft(z);
      store<Last>(z, place, true, numbers);
    }
  }
  __syncthreads(); // the next pass reads what other threads wrote
}

// One of four features.
__device__ inline float feature_of(float4 x, u32 c) {
  return c == 0u ? x.x : c == 1u ? x.y : c == 2u ? x.z : c == 3u ? x.w : 0.0f;
}

// The first pass, on a feature times the two values, or for the denominator on two features. Half of every butterfly is padding.
__device__ inline void lift(float2* numbers, const Token (&tokens)[HELD], const float* roots, u32 c, bool ones) {
#pragma unroll
  for (u32 round = 0u; round < First::ROUNDS; round++) {
    const u32 number = threadIdx.x + round * THREADS;
    const u32 place = first_place<First>(number);
    if (number < First::BUTTERFLIES && is_line_of_tokens<First>(place)) {
      float2 x[First::HALF];
#pragma unroll
      for (u32 d = 0u; d < First::HALF; d++) {
        const Token& token = tokens[round * First::HALF + d];
        const float key = feature_of(token.keys, c);
        x[d] = ones ? make_float2(key, feature_of(token.keys, c + 1u)) : key * token.values;
      }
      float2 z[First::COUNT];
      dft_of_half<First::COUNT>(x, z);
      twiddle<First>(z, place, roots);
      store<First>(z, place, false, numbers);
    }
  }
  __syncthreads(); // the next pass reads what other threads wrote
}

// The last pass back, of which only the tokens are wanted, times queries.
__device__ inline void contract(const float2* numbers, Token (&tokens)[HELD], const float* roots, u32 c, bool ones) {
#pragma unroll
  for (u32 round = 0u; round < First::ROUNDS; round++) {
    const u32 number = threadIdx.x + round * THREADS;
    const u32 place = first_place<First>(number);
    if (number < First::BUTTERFLIES && is_line_of_tokens<First>(place)) {
      float2 z[First::COUNT];
      load<First>(z, place, numbers);
      twiddle<First>(z, place, roots);
      dft(z);
#pragma unroll
      for (u32 d = 0u; d < First::HALF; d++) {
        Token& token = tokens[round * First::HALF + d];
        const float query = feature_of(token.queries, c);
        if (ones) {
          token.sums.x += query * z[d].y + feature_of(token.queries, c + 1u) * z[d].x;
        } else {
          token.sums = token.sums + query * swapped(z[d]);
        }
      }
    }
  }
}

// Bits of the frequency that the digit of a pass stands for at a place: digits are reversed along their axis.
template <typename P> __device__ inline u32 frequency_bits(u32 place) {
  const u32 digit = (place >> P::LO) & (P::COUNT - 1u);
  return digit << (P::START + P::END - P::LO - P::BITS);
}

__device__ inline u32 frequency_of(u32 place) {
  return frequency_bits<First>(place) | frequency_bits<PassOf<1u>::type>(place) | frequency_bits<PassOf<2u>::type>(place)
    | frequency_bits<PassOf<3u>::type>(place) | frequency_bits<PassOf<4u>::type>(place) | frequency_bits<PassOf<5u>::type>(place);
}

// Four features of a row from l on, 0 from `end` on.
__device__ inline float4 features_of(const float* row, u32 l, u32 end) {
  return make_float4(l < end ? row[l] : 0.0f, l + 1u < end ? row[l + 1u] : 0.0f, l + 2u < end ? row[l + 2u] : 0.0f,
                     l + 3u < end ? row[l + 3u] : 0.0f);
}

// Which token the thread's number `i` is, NONE where it is padding: made anew where it is wanted, because registers are short.
__device__ inline u32 number_of(u32 i) {
  const u32 butterfly = threadIdx.x + i / First::HALF * THREADS;
  const u32 place = first_place<First>(butterfly) + (i % First::HALF << First::LO);
  const u32 at1 = coordinate(place, 1u), at2 = coordinate(place, 2u), at3 = coordinate(place, 3u);
  const bool exists = butterfly < First::BUTTERFLIES && at1 < N1 && at2 < N2 && at3 < N3;
  return exists ? (at1 * N2 + at2) * N3 + at3 : NONE;
}

__device__ inline bool is_kept(u32 token, const u8* kept) { return token != NONE && (!HAS_KEY_MASK || kept[token] != 0u); }

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) toeplitz_attention_fused(
    Params params, const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
    const float* __restrict__ spectrum, const float* __restrict__ roots, const u8* __restrict__ key_mask,
    float* __restrict__ out) {
  __shared__ float2 numbers[PLACES];
  const u32 n = params.n;
  const u32 pairs = divided_up(params.e, 2u) + 1u;
  const u32 line = blockIdx.x / pairs;
  const u32 column = 2u * (blockIdx.x % pairs);
  const u32 head = line / params.s;
  const u32 slice = line % params.s;
  const bool ones = column + 2u == 2u * pairs;

  // Factors, tokens and their values are the same for all features.
  float2 factors[FACTORS];
  const float* own_spectrum = spectrum + 2u * size_t(PLACES) * (head % params.h % params.g);
#pragma unroll
  for (u32 round = 0u; round < Last::ROUNDS; round++) {
    const u32 number = threadIdx.x + round * THREADS;
#pragma unroll
    for (u32 d = 0u; d < Last::COUNT; d++) {
      factors[round * Last::COUNT + d] = float2();
      if (number < Last::BUTTERFLIES) {
        const float* factor = own_spectrum + 2u * frequency_of(first_place<Last>(number) | (d << Last::LO));
        factors[round * Last::COUNT + d] = make_float2(factor[0], factor[1]);
      }
    }
  }
  Token tokens[HELD];
  const u8* kept = key_mask;
  if (HAS_KEY_MASK) { kept += size_t(head / params.h) * params.key_mask_b + size_t(head % params.h) * params.key_mask_h; }
#pragma unroll
  for (u32 i = 0u; i < HELD; i++) {
    const u32 number = number_of(i);
    Token& token = tokens[i];
    token.values = token.sums = float2();
    if (is_kept(number, kept) && !ones) {
      const float* row = v + (size_t(head) * n + number) * params.e + column;
      token.values = make_float2(row[0], column + 1u < params.e ? row[1] : 0.0f);
    }
  }

  const u32 per_slice = divided_up(params.r, 4u * params.s) * 4u;
  const u32 end = min(params.r, (slice + 1u) * per_slice);
  for (u32 l = slice * per_slice; l < end; l += 4u) {
#pragma unroll
    for (u32 i = 0u; i < HELD; i++) {
      const u32 number = number_of(i);
      const size_t row = (size_t(head) * n + number) * params.r;
      tokens[i].keys = is_kept(number, kept) ? features_of(k + row, l, end) : float4();
      tokens[i].queries = number != NONE ? features_of(q + row, l, end) : float4();
    }
    const u32 left = min(4u, end - l);
    for (u32 c = 0u; c < left; c += ones ? 2u : 1u) {
      lift(numbers, tokens, roots, c, ones);
      if constexpr (PASSES > 2u) { forward<PassOf<1u>::type>(numbers, roots); }
      if constexpr (PASSES > 3u) { forward<PassOf<2u>::type>(numbers, roots); }
      if constexpr (PASSES > 4u) { forward<PassOf<3u>::type>(numbers, roots); }
      if constexpr (PASSES > 5u) { forward<PassOf<4u>::type>(numbers, roots); }
      middle(numbers, factors);
      if constexpr (PASSES > 5u) { backward<PassOf<4u>::type>(numbers, roots); }
      if constexpr (PASSES > 4u) { backward<PassOf<3u>::type>(numbers, roots); }
      if constexpr (PASSES > 3u) { backward<PassOf<2u>::type>(numbers, roots); }
      if constexpr (PASSES > 2u) { backward<PassOf<1u>::type>(numbers, roots); }
      contract(numbers, tokens, roots, c, ones);
    }
  }

#pragma unroll
  for (u32 i = 0u; i < HELD; i++) {
    const u32 number = number_of(i);
    if (number != NONE) {
      float* to = out + (size_t(line) * n + number) * params.w;
      if (ones) {
        to[params.e] = tokens[i].sums.x;
      } else {
        to[column] = tokens[i].sums.x;
        if (column + 1u < params.e) { to[column + 1u] = tokens[i].sums.y; }
      }
    }
  }
}
