// Sums of masked attention for two value columns (or the denominator's) of one head and a slice of its features: lift, transform,
// filter, transform back and contract, feature after feature, all inside the workgroup. A place of the box L1 x L2 x L3 (the last
// axis fastest) is one complex number, so two real channels share a transform.
//
// Forward passes decimate in frequency: they leave the digits of an axis reversed, where the passes back, which decimate in time,
// want them. No pass moves a number, so one barrier parts two passes, and none is needed between two features: the last pass
// reads what the same thread writes in the first. An inverse transform is a forward one between two exchanges of the parts.
@group(0) @binding(1) var<storage, read> q: array<f32>;         // [b, h, n, r]
@group(0) @binding(2) var<storage, read> k: array<f32>;         // [b, h, n, r]
@group(0) @binding(3) var<storage, read> v: array<f32>;         // [b, h, n, e]
@group(0) @binding(4) var<storage, read> spectrum: array<f32>;  // [g, l1, l2, l3, 2], 1/L included
@group(0) @binding(5) var<storage, read> roots: array<f32>;     // [t, 2]: exp(-2 pi i k / t)
@group(0) @binding(6) var<storage, read> key_mask: array<u32>;  // bytes [b, h, n]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [b, h, s, n, w]

var<workgroup> numbers: array<vec2f, PLACES>;

// What a thread holds of the tokens that it lifts in the first pass and contracts in the last, and of the spectrum that it
// multiplies by between.
const HELD: u32 = PLACES / (2u * THREADS);
var<private> tokens: array<u32, HELD>; // 0xffffffff: none
var<private> kept: array<bool, HELD>;
var<private> keys: array<vec4f, HELD>;
var<private> queries: array<vec4f, HELD>;
var<private> values: array<vec2f, HELD>;
var<private> sums: array<vec2f, HELD>;
var<private> factors: array<vec2f, PLACES / THREADS>;

// Butterflies of 1 << bits numbers that lie 1 << lo places apart.
struct Pass {
  lo: u32,
  bits: u32,
  axis: u32,
}
const PASS_0 = Pass(LO0, BITS0, AXIS0);
const PASS_1 = Pass(LO1, BITS1, AXIS1);
const PASS_2 = Pass(LO2, BITS2, AXIS2);
const PASS_3 = Pass(LO3, BITS3, AXIS3);
const PASS_4 = Pass(LO4, BITS4, AXIS4);
const PASS_5 = Pass(LO5, BITS5, AXIS5);

// First bit of an axis in the number of a place, and the first one behind it.
fn axis_from(axis: u32) -> u32 {
  if (axis == 3u) { return 0u; }
  if (axis == 2u) { return A3; }
  return A3 + A2;
}

fn axis_end(axis: u32) -> u32 {
  if (axis == 3u) { return A3; }
  if (axis == 2u) { return A3 + A2; }
  return A3 + A2 + A1;
}

fn coordinate(place: u32, axis: u32) -> u32 {
  let start = axis_from(axis);
  return (place >> start) & ((1u << (axis_end(axis) - start)) - 1u);
}

fn side(axis: u32) -> u32 {
  if (axis == 3u) { return N3; }
  if (axis == 2u) { return N2; }
  return N1;
}

// Whether a pass is the first of its axis forward and the last one back: only its first `side` numbers are not padding.
fn is_top(p: Pass) -> bool { return p.lo + p.bits == axis_end(p.axis); }

// First place of butterfly `number`.
fn first_place(p: Pass, number: u32) -> u32 {
  return ((number >> p.lo) << (p.lo + p.bits)) | (number & ((1u << p.lo) - 1u));
}

// Lines of padding along a later axis are zeros before their own axis is transformed, and wanted by nobody after it.
fn is_line_of_tokens(p: Pass, place: u32) -> bool {
  if (p.axis == 3u) { return coordinate(place, 2u) < N2 && coordinate(place, 1u) < N1; }
  if (p.axis == 2u) { return coordinate(place, 1u) < N1; }
  return true;
}

// Where a place lies in workgroup memory: neighbouring threads that work on places 8 apart would meet in the same bank.
// Places that differ in disjoint bits may be combined before or after: slot(a | b) = slot(a) ^ slot(b).
fn slot(place: u32) -> u32 { return place ^ ((place >> 4u) & 15u); }

fn times(z: vec2f, w: vec2f) -> vec2f { return vec2f(z.x * w.x - z.y * w.y, z.x * w.y + z.y * w.x); }

// Times -i.
fn turned(z: vec2f) -> vec2f { return vec2f(z.y, -z.x); }

struct Four {
  a: vec2f,
  b: vec2f,
  c: vec2f,
  d: vec2f,
}

fn dft4(a: vec2f, b: vec2f, c: vec2f, d: vec2f) -> Four {
  let s = a + c;
  let t = a - c;
  let u = b + d;
  let w = turned(b - d);
  return Four(s + u, t + w, s - u, t - w);
}

struct Numbers {
  lo: Four,
  hi: Four,
}

const HALF_ROOT: f32 = 0.7071067811865476;

// Even and odd outputs of eight from sums and differences of inputs four apart.
fn interleaved(even: vec2f, b: vec2f, c: vec2f, d: vec2f, e: vec2f, f: vec2f, g: vec2f, h: vec2f) -> Numbers {
  let x = dft4(even, b, c, d);
  let y = dft4(e, (f + turned(f)) * HALF_ROOT, turned(g), (turned(h) - h) * HALF_ROOT);
  return Numbers(Four(x.a, y.a, x.b, y.b), Four(x.c, y.c, x.d, y.d));
}

// The transform of 1 << bits numbers; with `half` the second half of them is zero.
fn dft(z: Numbers, bits: u32, half: bool) -> Numbers {
  let x = z.lo;
  let y = z.hi;
  var to = z;
  if (bits == 1u) {
    if (half) { to.lo.b = x.a; } else { to.lo.a = x.a + x.b; to.lo.b = x.a - x.b; }
  } else if (bits == 2u) {
    if (half) {
      let t = turned(x.b);
      to.lo = Four(x.a + x.b, x.a + t, x.a - x.b, x.a - t);
    } else {
      to.lo = dft4(x.a, x.b, x.c, x.d);
    }
  } else {
    if (half) {
      to = interleaved(x.a, x.b, x.c, x.d, x.a, x.b, x.c, x.d);
    } else {
      to = interleaved(x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d, x.a - y.a, x.b - y.b, x.c - y.c, x.d - y.d);
    }
  }
  return to;
}

fn root(at: u32) -> vec2f { return vec2f(roots[params.roots_at + 2u * at], roots[params.roots_at + 2u * at + 1u]); }

// Number d times w^(d j), w the first root of the part of the axis that this pass and those behind it work on.
fn twiddled(p: Pass, place: u32, z: Numbers) -> Numbers {
  let start = axis_from(p.axis);
  if (p.lo == start) { return z; }
  let j = (place >> start) & ((1u << (p.lo - start)) - 1u);
  let at = j << (ROOTS - (p.lo + p.bits - start));
  let w1 = root(at);
  var to = z;
  to.lo.b = times(z.lo.b, w1);
  if (p.bits > 1u) {
    let w2 = root(2u * at);
    let w3 = times(w1, w2);
    to.lo.c = times(z.lo.c, w2);
    to.lo.d = times(z.lo.d, w3);
    if (p.bits > 2u) {
      let w4 = root(4u * at);
      to.hi = Four(times(z.hi.a, w4), times(z.hi.b, times(w4, w1)), times(z.hi.c, times(w4, w2)), times(z.hi.d, times(w4, w3)));
    }
  }
  return to;
}

// Number d of a butterfly, 0 where it is padding.
fn token_number(p: Pass, place: u32, at: u32, d: u32) -> vec2f {
  let z = numbers[at ^ slot(d << p.lo)];
  return select(vec2f(), z, coordinate(place + (d << p.lo), p.axis) < side(p.axis));
}

fn taken(p: Pass, place: u32, forward: bool) -> Numbers {
  var z: Numbers;
  let at = slot(place);
  if (forward && is_top(p)) {
    z.lo.a = token_number(p, place, at, 0u);
    if (p.bits > 1u) { z.lo.b = token_number(p, place, at, 1u); }
    if (p.bits > 2u) {
      z.lo.c = token_number(p, place, at, 2u);
      z.lo.d = token_number(p, place, at, 3u);
    }
  } else {
    z.lo.a = numbers[at];
    z.lo.b = numbers[at ^ slot(1u << p.lo)];
    if (p.bits > 1u) {
      z.lo.c = numbers[at ^ slot(2u << p.lo)];
      z.lo.d = numbers[at ^ slot(3u << p.lo)];
    }
    if (p.bits > 2u) {
      z.hi.a = numbers[at ^ slot(4u << p.lo)];
      z.hi.b = numbers[at ^ slot(5u << p.lo)];
      z.hi.c = numbers[at ^ slot(6u << p.lo)];
      z.hi.d = numbers[at ^ slot(7u << p.lo)];
    }
  }
  return z;
}

// Stores a butterfly; of those that end an axis only the first half, in which all tokens lie.
fn put(p: Pass, place: u32, z: Numbers, ends: bool) {
  let at = slot(place);
  let all = !(ends && is_top(p));
  numbers[at] = z.lo.a;
  if (all || p.bits > 1u) { numbers[at ^ slot(1u << p.lo)] = z.lo.b; }
  if (p.bits > 1u && (all || p.bits > 2u)) {
    numbers[at ^ slot(2u << p.lo)] = z.lo.c;
    numbers[at ^ slot(3u << p.lo)] = z.lo.d;
  }
  if (p.bits > 2u && all) {
    numbers[at ^ slot(4u << p.lo)] = z.hi.a;
    numbers[at ^ slot(5u << p.lo)] = z.hi.b;
    numbers[at ^ slot(6u << p.lo)] = z.hi.c;
    numbers[at ^ slot(7u << p.lo)] = z.hi.d;
  }
}

fn forward(p: Pass, thread: u32) {
  for (var number = thread; number < (PLACES >> p.bits); number += THREADS) {
    let place = first_place(p, number);
    if (is_line_of_tokens(p, place)) { put(p, place, twiddled(p, place, dft(taken(p, place, true), p.bits, is_top(p))), false); }
  }
  workgroupBarrier(); // the next pass reads what other threads wrote
}

fn backward(p: Pass, thread: u32) {
  for (var number = thread; number < (PLACES >> p.bits); number += THREADS) {
    let place = first_place(p, number);
    if (is_line_of_tokens(p, place)) { put(p, place, dft(twiddled(p, place, taken(p, place, false)), p.bits, false), true); }
  }
  workgroupBarrier(); // the next pass reads what other threads wrote
}

// Times a factor, as input of the way back.
fn filtered(z: vec2f, number: u32) -> vec2f { return times(z, factors[number]).yx; }

// The last pass forward, the spectrum and the first pass back, on the same places.
fn middle(p: Pass, thread: u32) {
  for (var round = 0u; round < (PLACES >> p.bits) / THREADS; round++) {
    let place = first_place(p, thread + round * THREADS);
    let f = round << p.bits;
    var z = dft(taken(p, place, true), p.bits, is_top(p));
    z.lo.a = filtered(z.lo.a, f);
    z.lo.b = filtered(z.lo.b, f + 1u);
    if (p.bits > 1u) {
      z.lo.c = filtered(z.lo.c, f + 2u);
      z.lo.d = filtered(z.lo.d, f + 3u);
    }
    if (p.bits > 2u) {
      z.hi.a = filtered(z.hi.a, f + 4u);
      z.hi.b = filtered(z.hi.b, f + 5u);
      z.hi.c = filtered(z.hi.c, f + 6u);
      z.hi.d = filtered(z.hi.d, f + 7u);
    }
    put(p, place, dft(z, p.bits, false), true);
  }
  workgroupBarrier(); // the next pass reads what other threads wrote
}

// One of four features.
fn component(x: vec4f, c: u32) -> f32 { return select(select(x.x, x.y, c == 1u), select(x.z, x.w, c == 3u), c > 1u); }

// The channels of a token: a feature times its two values, or for the denominator two features.
fn lifted(i: u32, c: u32, ones: bool) -> vec2f {
  let key = component(keys[i], c);
  return select(key * values[i], vec2f(key, component(keys[i], c + 1u)), ones);
}

// The first pass: half of every butterfly is padding.
fn lift(thread: u32, c: u32, ones: bool) {
  let p = PASS_0;
  let per = (1u << p.bits) / 2u;
  for (var round = 0u; round < (PLACES >> p.bits) / THREADS; round++) {
    let place = first_place(p, thread + round * THREADS);
    if (is_line_of_tokens(p, place)) {
      let i = round * per;
      var z: Numbers;
      z.lo.a = lifted(i, c, ones);
      if (per > 1u) { z.lo.b = lifted(i + 1u, c, ones); }
      if (per > 2u) {
        z.lo.c = lifted(i + 2u, c, ones);
        z.lo.d = lifted(i + 3u, c, ones);
      }
      put(p, place, twiddled(p, place, dft(z, p.bits, true)), false);
    }
  }
  workgroupBarrier(); // the next pass reads what other threads wrote
}

fn contracted(i: u32, c: u32, ones: bool, z: vec2f) {
  let query = component(queries[i], c);
  let both = query * z.y + component(queries[i], c + 1u) * z.x;
  sums[i] += select(query * z.yx, vec2f(both, 0.0), ones);
}

// The last pass back, of which only the tokens are wanted.
fn contract(thread: u32, c: u32, ones: bool) {
  let p = PASS_0;
  let per = (1u << p.bits) / 2u;
  for (var round = 0u; round < (PLACES >> p.bits) / THREADS; round++) {
    let place = first_place(p, thread + round * THREADS);
    if (is_line_of_tokens(p, place)) {
      let z = dft(twiddled(p, place, taken(p, place, false)), p.bits, false);
      let i = round * per;
      contracted(i, c, ones, z.lo.a);
      if (per > 1u) { contracted(i + 1u, c, ones, z.lo.b); }
      if (per > 2u) {
        contracted(i + 2u, c, ones, z.lo.c);
        contracted(i + 3u, c, ones, z.lo.d);
      }
    }
  }
}

// Bits of the frequency that digit of pass `p` stands for at a place: digits are reversed along their axis.
fn frequency_bits(p: Pass, place: u32) -> u32 {
  let digit = (place >> p.lo) & ((1u << p.bits) - 1u);
  return digit << (axis_from(p.axis) + axis_end(p.axis) - p.lo - p.bits);
}

fn frequency(place: u32) -> u32 {
  return frequency_bits(PASS_0, place) | frequency_bits(PASS_1, place) | frequency_bits(PASS_2, place)
    | frequency_bits(PASS_3, place) | frequency_bits(PASS_4, place) | frequency_bits(PASS_5, place);
}

fn last_pass() -> Pass {
  var p = PASS_1;
  if (PASSES == 3u) { p = PASS_2; }
  if (PASSES == 4u) { p = PASS_3; }
  if (PASSES == 5u) { p = PASS_4; }
  if (PASSES == 6u) { p = PASS_5; }
  return p;
}

// Factors of the spectrum, tokens, their values and whether they are kept: the same for all features.
fn prepare(thread: u32, batch: u32, head: u32, column: u32) {
  let last = last_pass();
  let from_spectrum = params.spectrum_at + 2u * PLACES * (batch % params.h % params.g);
  for (var round = 0u; round < (PLACES >> last.bits) / THREADS; round++) {
    let place = first_place(last, thread + round * THREADS);
    for (var d = 0u; d < (1u << last.bits); d++) {
      let at = from_spectrum + 2u * frequency(place | (d << last.lo));
      factors[(round << last.bits) + d] = vec2f(spectrum[at], spectrum[at + 1u]);
    }
  }
  let mask_from = params.key_mask_at + batch / params.h * params.key_mask_b + batch % params.h * params.key_mask_h;
  let per = (1u << BITS0) / 2u;
  for (var i = 0u; i < HELD; i++) {
    let place = first_place(PASS_0, thread + i / per * THREADS) + ((i % per) << LO0);
    let c1 = coordinate(place, 1u);
    let c2 = coordinate(place, 2u);
    let c3 = coordinate(place, 3u);
    let exists = c1 < N1 && c2 < N2 && c3 < N3;
    let token = select(0u, (c1 * N2 + c2) * N3 + c3, exists);
    tokens[i] = select(0xffffffffu, token, exists);
    kept[i] = exists;
    if (HAS_KEY_MASK) {
      let at = mask_from + token;
      kept[i] = exists && byte_of(key_mask[at >> 2u], at) != 0u;
    }
    let row = params.v_at + (head * params.n + token) * params.e;
    let pair = vec2f(v[row + min(column, params.e - 1u)], v[row + min(column + 1u, params.e - 1u)]);
    values[i] = select(vec2f(), select(vec2f(pair.x, 0.0), pair, column + 1u < params.e), kept[i]);
    sums[i] = vec2f();
  }
}

fn key(row: u32, l: u32, end: u32) -> f32 { return select(0.0, k[params.k_at + row + min(l, params.r - 1u)], l < end); }

fn query(row: u32, l: u32, end: u32) -> f32 { return select(0.0, q[params.q_at + row + min(l, params.r - 1u)], l < end); }

// Four features of the tokens, 0 for those past the slice.
fn load_features(head: u32, l: u32, end: u32) {
  for (var i = 0u; i < HELD; i++) {
    let row = (head * params.n + select(tokens[i], 0u, tokens[i] == 0xffffffffu)) * params.r;
    let four = vec4f(key(row, l, end), key(row, l + 1u, end), key(row, l + 2u, end), key(row, l + 3u, end));
    keys[i] = select(vec4f(), four, kept[i]);
    queries[i] = vec4f(query(row, l, end), query(row, l + 1u, end), query(row, l + 2u, end), query(row, l + 3u, end));
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let pairs = (params.e + 1u) / 2u + 1u;
  let line = group / pairs;
  let column = 2u * (group - line * pairs);
  let head = line / params.s;
  let slice = line - head * params.s;
  let ones = column + 2u == 2u * pairs;
  prepare(thread, params.batch_from + head, head, column);

  let per_slice = (params.r + 4u * params.s - 1u) / (4u * params.s) * 4u;
  let end = min(params.r, (slice + 1u) * per_slice);
  let step = select(1u, 2u, ones);
  for (var l = slice * per_slice; l < end; l += 4u) {
    load_features(head, l, end);
    let left = min(4u, end - l);
    for (var c = 0u; c < left; c += step) {
      lift(thread, c, ones);
      if (PASSES > 2u) { forward(PASS_1, thread); }
      if (PASSES > 3u) { forward(PASS_2, thread); }
      if (PASSES > 4u) { forward(PASS_3, thread); }
      if (PASSES > 5u) { forward(PASS_4, thread); }
      middle(last_pass(), thread);
      if (PASSES > 5u) { backward(PASS_4, thread); }
      if (PASSES > 4u) { backward(PASS_3, thread); }
      if (PASSES > 3u) { backward(PASS_2, thread); }
      if (PASSES > 2u) { backward(PASS_1, thread); }
      contract(thread, c, ones);
    }
  }

  for (var i = 0u; i < HELD; i++) {
    if (tokens[i] != 0xffffffffu) {
      let at = params.out_at + (line * params.n + tokens[i]) * params.w;
      if (ones) {
        out[at + params.e] = sums[i].x;
      } else {
        out[at + column] = sums[i].x;
        if (column + 1u < params.e) { out[at + column + 1u] = sums[i].y; }
      }
    }
  }
}
