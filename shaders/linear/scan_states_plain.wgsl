// One thread per number of a state walks the chunks, forward in the first half of a two-sided state, backward in the second.
@group(0) @binding(1) var<storage, read> states: array<f32>;
@group(0) @binding(2) var<storage, read> powers: array<f32>;
@group(0) @binding(3) var<storage, read> reach: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<storage, read_write> last: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let blocks = (params.s + 63u) / 64u;
  let local_batch = group / blocks;
  let item = group % blocks * 64u + thread;
  if (item >= params.s) { return; }
  let batch = params.batch_from + local_batch;
  let backward = TWO_SIDED == 1u && item >= params.s / 2u;
  let start = local_batch * params.c * params.s + item;
  var run = 0.0;
  var next = states[params.states_at + start + select(0u, params.c - 1u, backward) * params.s];
  for (var step = 0u; step < params.c; step++) {
    let chunk = select(step, params.c - 1u - step, backward);
    let own = next;
    // The next chunk's number is on its way while this one is added.
    let after = select(min(chunk + 1u, params.c - 1u), max(chunk, 1u) - 1u, backward);
    next = states[params.states_at + start + after * params.s];
    out[params.out_at + start + chunk * params.s] = run;
    // Selected: what does not pass may have been anything.
    let factor = carry(batch, chunk, backward);
    run = select(0.0, factor * run, factor != 0.0) + own;
  }
  if (HAS_LAST) { last[params.last_at + local_batch * params.s + item] = run; }
}
