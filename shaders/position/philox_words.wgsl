// The words of counters, and the numbers made of them. One thread per counter.
@group(0) @binding(1) var<storage, read> counters: array<u32>; // [n, 4]
@group(0) @binding(2) var<storage, read> table: array<u32>; // [512] beginnings, then slopes
@group(0) @binding(3) var<storage, read_write> words: array<u32>; // [n, 4]
@group(0) @binding(4) var<storage, read_write> out: array<f32>; // [n, 4]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let i = group * 64u + thread;
  if (i >= params.n) { return; }
  let at = params.counters_at + 4u * i;
  let counter = vec4u(counters[at], counters[at + 1u], counters[at + 2u], counters[at + 3u]);
  let four = philox(counter, vec2u(params.seed_low, params.seed_high));
  let made = numbers(four);
  for (var lane = 0u; lane < 4u; lane++) {
    words[params.words_at + 4u * i + lane] = four[lane];
    out[params.out_at + 4u * i + lane] = made[lane];
  }
}
