// alpha x + beta residual + bias + identity [row = column], the end of every matmul variant.
fn epilogue(local_batch: u32, row: u32, col: u32, x: f32) -> f32 {
  var y = params.alpha * x;
  if (HAS_RESIDUAL) {
    let batch = params.batch_from + local_batch;
    let start = params.residual_at + batch / params.h * params.residual_b + batch % params.h * params.residual_h;
    y += params.beta * residual[start + row * params.p + col];
  }
  if (HAS_BIAS) {
    let batch = params.batch_from + local_batch;
    y += bias[params.bias_at + batch / params.h * params.bias_b + batch % params.h * params.bias_h + col];
  }
  if (row == col) { y += params.identity; }
  return y;
}
