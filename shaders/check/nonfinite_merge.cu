// Sum of the counts and first place over all parts of a list, in one block: parts [parts, 2], out [2]. A part has `rows` numbers,
// and its place counts from its begin.
extern "C" __global__ void __launch_bounds__(THREADS) nonfinite_merge(
    Params params, const u32* __restrict__ parts, u32* __restrict__ out) {
  __shared__ u32 count, first;
  if (threadIdx.x == 0u) {
    count = 0u;
    first = 0xffffffffu;
  }
  __syncthreads(); // both begin before anyone adds
  for (u32 part = threadIdx.x; part < params.parts; part += THREADS) {
    const u32 found = parts[2u * size_t(part)];
    if (found > 0u) {
      atomicAdd(&count, found);
      atomicMin(&first, part * params.rows + parts[2u * size_t(part) + 1u]);
    }
  }
  __syncthreads(); // every thread has added its parts
  if (threadIdx.x == 0u) {
    out[0] = count;
    out[1] = first;
  }
}
