// out = a + b, or a copy of a. One thread per word.
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read> b: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let i = group * 64u + thread;
  if (i >= params.n) { return; }
  var sum = a[params.a_at + i];
  if (HAS_B) { sum += b[params.b_at + i]; }
  out[params.out_at + i] = sum;
}
