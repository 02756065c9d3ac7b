// A group per head; a thread per column of the state, in turns where there are more than 64. Each thread reads and writes only
// its own columns of the state; only the denominator passes between threads.
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> k: array<f32>;
@group(0) @binding(3) var<storage, read> v: array<f32>;
@group(0) @binding(4) var<storage, read> decay: array<f32>;
@group(0) @binding(5) var<storage, read> key_mask: array<u32>;
@group(0) @binding(6) var<storage, read> state: array<f32>;
@group(0) @binding(7) var<storage, read_write> next: array<f32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

var<workgroup> denominator: f32;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let batch = params.batch_from + group;
  let state_from = params.state_at + group * params.r * params.w;
  let next_from = params.next_at + group * params.r * params.w;
  var gamma = 1.0;
  if (HAS_DECAY) { gamma = decay[params.decay_at + batch % params.h % params.heads]; }
  for (var c = thread; c < params.w; c += 64u) {
    for (var l = 0u; l < params.r; l++) {
      next[next_from + l * params.w + c] = state[state_from + l * params.w + c];
    }
  }
  for (var t = 0u; t < params.n; t++) {
    let token = group * params.n + t;
    var is_key = true;
    if (HAS_KEY_MASK) {
      let at = params.key_mask_at + batch / params.h * params.key_mask_b + batch % params.h * params.key_mask_h + t;
      is_key = byte_of(key_mask[at >> 2u], at) != 0u;
    }
    for (var c = thread; c < params.w; c += 64u) {
      var value = 1.0;
      if (c < params.e) { value = v[params.v_at + token * params.e + c]; }
      var sum = 0.0;
      for (var l = 0u; l < params.r; l++) {
        let at = next_from + l * params.w + c;
        var x = gamma * next[at];
        if (is_key) { x += k[params.k_at + token * params.r + l] * value; }
        next[at] = x;
        sum += q[params.q_at + token * params.r + l] * x;
      }
      if (c < params.e) { out[params.out_at + token * params.e + c] = sum; } else { denominator = sum; }
    }
    workgroupBarrier(); // the denominator is there
    let below = denominator;
    for (var c = thread; c < params.e; c += 64u) {
      let at = params.out_at + token * params.e + c;
      var value = 0.0;
      if (!(below == 0.0)) { value = out[at] / below; }
      out[at] = value;
    }
    workgroupBarrier(); // everyone has read it before the next token's
  }
}
