// out [b, h, r, w] = [S[l], z[l]] from a state [b, h, s] that holds r x (w - 1) products S, then r sums z, and whatever comes
// after. One thread per element.
extern "C" __global__ void __launch_bounds__(THREADS) step_state(
    Params params, const float* __restrict__ state, float* __restrict__ out) {
  const Item item = item_of(params.r, params.w);
  if (!item.there) { return; }
  const u32 e = params.w - 1u;
  const size_t place = item.col == e ? size_t(params.r) * e + item.row : size_t(item.row) * e + item.col;
  out[item.at] = state[size_t(item.head) * params.s + place];
}
