// y = scale u[i, c]; out = y + 1 or e^y (ELU + 1), max(y, 0) + eps (ReLU); 0 where the row is masked or in no segment
// (selected, not multiplied: such rows may hold anything). u, out [b, h, n, p]. One thread per element.
@group(0) @binding(1) var<storage, read> u: array<f32>;
@group(0) @binding(2) var<storage, read> key_mask: array<u32>;
@group(0) @binding(3) var<storage, read> starts: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let size = params.n * params.p;
  let groups_per_batch = (size + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let item = group % groups_per_batch * 64u + thread;
  if (item >= size) { return; }
  let row = item / params.p;
  let b = (params.batch_from + local_batch) / params.h;
  let h = (params.batch_from + local_batch) % params.h;
  var kept = true;
  if (HAS_KEY_MASK) {
    let at = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h + row;
    kept = byte_of(key_mask[at >> 2u], at) != 0u;
  }
  if (HAS_STARTS) {
    let at = params.starts_at + b * params.starts_b + h * params.starts_h;
    kept = kept && row >= starts[at] && row < starts[at + params.s - 1u];
  }
  let y = params.scale * u[params.u_at + local_batch * size + item];
  var value = max(y, 0.0) + params.eps;
  if (MAP == 0u) { value = select(exp_accurate(y), y + 1.0, y > 0.0); }
  out[params.out_at + local_batch * size + item] = select(0.0, value, kept);
}
