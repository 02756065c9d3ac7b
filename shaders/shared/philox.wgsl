// Philox4x32-10: four words from a counter and a key, the same on every backend.

// High and low word of a product of two words, from products of their halves.
fn wide_product(a: u32, b: u32) -> vec2u {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
  return vec2u((a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u), a * b);
}

fn philox(counter: vec4u, seed: vec2u) -> vec4u {
  var word = counter;
  var key = seed;
  for (var round = 0u; round < 10u; round++) {
    let a = wide_product(0xd2511f53u, word.x);
    let c = wide_product(0xcd9e8d57u, word.z);
    word = vec4u(c.x ^ word.y ^ key.x, c.y, a.x ^ word.w ^ key.y, a.y);
    key += vec2u(0x9e3779b9u, 0xbb67ae85u);
  }
  return word;
}
