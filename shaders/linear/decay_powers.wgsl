// powers[h, t] = decay[h]^t, one thread per power: binary powers in pairs of floats (high and low part).
@group(0) @binding(1) var<storage, read> decay: array<f32>;
@group(0) @binding(2) var<storage, read_write> powers: array<f32>;

// The upper 12 bits of the mantissa, so that products of two such parts are exact.
fn upper(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u); }

fn times(a: vec2f, b: vec2f) -> vec2f {
  let product = a.x * b.x;
  let ah = upper(a.x);
  let al = a.x - ah;
  let bh = upper(b.x);
  let bl = b.x - bh;
  let error = ((ah * bh - product) + ah * bl + al * bh) + al * bl;
  let low = error + (a.x * b.y + a.y * b.x);
  let sum = product + low;
  return vec2f(sum, low - (sum - product));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let item = group * 64u + thread;
  if (item >= params.heads * params.t) { return; }
  var base = vec2f(decay[params.decay_at + item / params.t], 0.0);
  var power = vec2f(1.0, 0.0);
  for (var left = item % params.t; left != 0u; left >>= 1u) {
    if ((left & 1u) != 0u) { power = times(power, base); }
    base = times(base, base);
  }
  powers[params.powers_at + item] = power.x;
}
