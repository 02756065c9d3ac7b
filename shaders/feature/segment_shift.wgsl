// out[i] = (m, t - maxima[segment of i], at least LOWEST) of rows[i] = (m, t); (0, LEFT_OUT) where the row is masked or in no
// segment (selected: such rows may hold anything). rows, out [b, h, n, 2], maxima [b, h, g], starts [b, h, s]. One thread per row.
@group(0) @binding(1) var<storage, read> rows: array<f32>;
@group(0) @binding(2) var<storage, read> maxima: array<f32>;
@group(0) @binding(3) var<storage, read> key_mask: array<u32>;
@group(0) @binding(4) var<storage, read> starts: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

const LOWEST: f32 = -500.0;
const LEFT_OUT: f32 = -1000.0;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let groups_per_batch = (params.n + 63u) / 64u;
  let local_batch = group / groups_per_batch;
  let row = group % groups_per_batch * 64u + thread;
  if (row >= params.n) { return; }
  let b = (params.batch_from + local_batch) / params.h;
  let h = (params.batch_from + local_batch) % params.h;
  var kept = true;
  if (HAS_KEY_MASK) {
    let at = params.key_mask_at + b * params.key_mask_b + h * params.key_mask_h + row;
    kept = byte_of(key_mask[at >> 2u], at) != 0u;
  }
  var segment = 0u;
  if (HAS_STARTS) {
    // The last boundary that is not beyond the row; of equal ones the last, so that empty segments own nothing.
    let at = params.starts_at + b * params.starts_b + h * params.starts_h;
    var low = 0u;
    var high = params.s; // boundaries before `low` are not beyond, those from `high` on are
    while (low < high) {
      let middle = (low + high) / 2u;
      if (starts[at + middle] <= row) { low = middle + 1u; } else { high = middle; }
    }
    kept = kept && low > 0u && low < params.s;
    segment = max(low, 1u) - 1u;
  }
  let place = (local_batch * params.n + row) * 2u;
  let m = rows[params.rows_at + place];
  var t = rows[params.rows_at + place + 1u];
  if (HAS_MAXIMA && kept) { t -= maxima[params.maxima_at + b * params.maxima_b + h * params.maxima_h + segment]; }
  out[params.out_at + place] = select(0.0, m, kept);
  out[params.out_at + place + 1u] = select(LEFT_OUT, max(t, LOWEST), kept);
}
