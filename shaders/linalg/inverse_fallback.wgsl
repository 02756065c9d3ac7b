// Accepts an iterate whose residual |I - A X|_F is at most 1e-2, and otherwise inverts A by Cholesky, in place in the
// output; where a pivot is not positive or the result is no better, once more with ten times epsilon on the diagonal.
// One workgroup per matrix.
//
// llvmpipe ends every loop of an invocation, without a word, once all of them together have made 65 535 rounds. So the
// work is spread over 256 threads, products take four terms a round, and FALLBACK is 0 for matrices over 200.
//
// Comparisons that must see NaN are made on bits: a float that is not negative orders like its bits, and NaN's are the
// largest. WGSL may take x <= y for true where x is NaN.
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> iterate: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read> bound: array<f32>;
@group(0) @binding(5) var<storage, read_write> x: array<f32>;
@group(0) @binding(6) var<storage, read_write> status: array<f32>;

var<workgroup> partial: array<f32, 256>;

fn acceptable(value: f32) -> bool { return bitcast<u32>(value) <= bitcast<u32>(f32(0.01)); }
fn positive(value: f32) -> bool { return bitcast<u32>(value) - 1u < 0x7f7fffffu; }

// Scalar product of two stretches of x.
fn product_within(left: u32, right: u32, count: u32) -> f32 {
  var sums = vec4f();
  let fours = count / 4u * 4u;
  for (var k = 0u; k < fours; k += 4u) {
    sums += vec4f(x[left + k], x[left + k + 1u], x[left + k + 2u], x[left + k + 3u])
      * vec4f(x[right + k], x[right + k + 1u], x[right + k + 2u], x[right + k + 3u]);
  }
  for (var k = fours; k < count; k++) { sums.x += x[left + k] * x[right + k]; }
  return (sums.x + sums.y) + (sums.z + sums.w);
}

// The same of a stretch of a and one of x.
fn product_with_a(left: u32, right: u32, count: u32) -> f32 {
  var sums = vec4f();
  let fours = count / 4u * 4u;
  for (var k = 0u; k < fours; k += 4u) {
    sums += vec4f(a[left + k], a[left + k + 1u], a[left + k + 2u], a[left + k + 3u])
      * vec4f(x[right + k], x[right + k + 1u], x[right + k + 2u], x[right + k + 3u]);
  }
  for (var k = fours; k < count; k++) { sums.x += a[left + k] * x[right + k]; }
  return (sums.x + sums.y) + (sums.z + sums.w);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) count: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = linear_group(id, count);
  if (group >= params.groups) { return; }
  let m = params.m;
  let s = params.s;
  let from_a = params.a_at + group * m * m;
  let from_iterate = params.iterate_at + group * s * s;
  let to = params.x_at + group * m * m;
  let given = residual[params.residual_at + group];
  var measured = given;
  var code = select(3u, 0u, acceptable(given));

  if (FALLBACK != 0u && !acceptable(given)) {
    for (var attempt = 0u; attempt < 2u; attempt++) {
      // Barriers may not depend on what workgroup memory holds, so a first attempt that went well is made again.
      let shift = select(0.0, 9.0 * params.epsilon, attempt == 1u && code == 3u);
      for (var at = thread; at < m * m; at += 256u) {
        x[to + at] = a[from_a + at] + select(0.0, shift, at / m == at % m);
      }
      var sound = true;
      // L into the lower triangle, one column after the other.
      for (var k = 0u; k < m; k++) {
        storageBarrier(); // the updates of the columns before are written
        let pivot = x[to + k * m + k];
        sound = sound && positive(pivot);
        let root = sqrt(select(1.0, pivot, positive(pivot)));
        for (var i = k + 1u + thread; i < m; i += 256u) { x[to + i * m + k] /= root; }
        storageBarrier(); // column k is scaled, and everyone has read its pivot
        if (thread == 0u) { x[to + k * m + k] = root; }
        let rest = m - k - 1u;
        for (var at = thread; at < rest * rest; at += 256u) {
          let i = k + 1u + at / rest;
          let j = k + 1u + at % rest;
          if (j <= i) { x[to + i * m + j] -= x[to + i * m + k] * x[to + j * m + k]; }
        }
      }
      storageBarrier(); // L is complete
      // Its inverse, transposed, into the upper triangle: column j by one thread, which reads only L and its own row.
      for (var j = thread; j < m; j += 256u) {
        let row = to + j * m;
        let head = 1.0 / x[row + j];
        for (var i = j + 1u; i < m; i++) {
          let line = to + i * m;
          let sum = x[line + j] * head + product_within(line + j + 1u, row + j + 1u, i - j - 1u);
          x[row + i] = -sum / x[line + i];
        }
      }
      storageBarrier(); // L is needed no more
      for (var i = thread; i < m; i += 256u) { x[to + i * m + i] = 1.0 / x[to + i * m + i]; }
      storageBarrier(); // the upper triangle with its diagonal is complete
      // Inverse = (inverse of L) transposed times itself: the lower triangle from the upper one.
      for (var at = thread; at < m * m; at += 256u) {
        let i = at / m;
        let j = at % m;
        if (j < i) { x[to + at] = product_within(to + i * m + i, to + j * m + i, m - i); }
      }
      storageBarrier(); // nobody reads another row's diagonal any more
      for (var i = thread; i < m; i += 256u) {
        let diagonal = to + i * m + i;
        x[diagonal] = product_within(diagonal, diagonal, m - i);
      }
      storageBarrier(); // the lower triangle is complete
      for (var at = thread; at < m * m; at += 256u) {
        let i = at / m;
        let j = at % m;
        if (j > i) { x[to + at] = x[to + j * m + i]; }
      }
      storageBarrier(); // so is the inverse
      var sum = 0.0;
      for (var at = thread; at < m * m; at += 256u) {
        let i = at / m;
        let j = at % m;
        // X is symmetric, so its row j serves as column j.
        let y = product_with_a(from_a + i * m, to + j * m, m) + shift * x[to + at];
        let miss = select(0.0, 1.0, i == j) - y;
        sum += miss * miss;
      }
      partial[thread] = sum;
      for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier(); // the sums of the level above are written
        if (thread < half) { partial[thread] += partial[thread + half]; }
      }
      workgroupBarrier(); // the norm is complete
      let again = sqrt(partial[0]);
      if (sound && acceptable(again)) {
        code = select(attempt + 1u, code, code == 1u);
        measured = again;
      }
      workgroupBarrier(); // everyone has read the norm
    }
  }
  if (code == 0u || code == 3u) {
    for (var at = thread; at < m * m; at += 256u) {
      x[to + at] = iterate[from_iterate + at / m * s + at % m];
    }
  }
  if (thread == 0u) {
    status[params.status_at + 4u * group] = measured;
    status[params.status_at + 4u * group + 1u] = bound[params.bound_at + 2u * group];
    status[params.status_at + 4u * group + 2u] = bound[params.bound_at + 2u * group + 1u];
    status[params.status_at + 4u * group + 3u] = f32(code);
  }
}
