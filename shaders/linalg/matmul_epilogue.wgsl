// alpha x + beta residual + bias + identity [row = column], the end of every matmul variant. What does not depend on
// the element is fetched once per thread: software drivers pay for every uniform load inside a loop of stores.
struct Epilogue {
  alpha: f32,
  beta: f32,
  identity: f32,
  columns: u32,
  out_from: u32,
  residual_from: u32,
  bias_from: u32,
}

fn epilogue_of(local_batch: u32) -> Epilogue {
  let b = (params.batch_from + local_batch) / params.h;
  let h = (params.batch_from + local_batch) % params.h;
  return Epilogue(params.alpha, params.beta, params.identity, params.p,
    params.out_at + local_batch * params.n * params.p,
    params.residual_at + b * params.residual_b + h * params.residual_h,
    params.bias_at + b * params.bias_b + h * params.bias_h);
}

fn epilogue(e: Epilogue, row: u32, col: u32, x: f32) -> f32 {
  var y = e.alpha * x;
  if (HAS_RESIDUAL) { y += e.beta * residual[e.residual_from + row * e.columns + col]; }
  if (HAS_BIAS) { y += bias[e.bias_from + col]; }
  return y + select(0.0, e.identity, row == col);
}
