// y[g, c] = mean of x[i, c] over the nodes i of graph g, 0 for a graph without nodes; x [b, h, n, c], offsets [g + 1], y [b, h,
// g, c]. A block takes LINE channels of one graph: neighbouring threads take neighbouring channels, and THREADS / LINE of them
// share the nodes.
extern "C" __global__ void __launch_bounds__(THREADS) segment_mean(
    Params params, const float* __restrict__ x, const u32* __restrict__ offsets, float* __restrict__ y) {
  __shared__ float parts[THREADS];
  const u32 tiles = divided_up(params.c, LINE);
  const u32 channel = blockIdx.x % tiles * LINE + threadIdx.x % LINE;
  const u32 graph = blockIdx.x / tiles % params.g;
  const u32 batch = blockIdx.x / tiles / params.g;
  const u32 last = min(offsets[graph + 1u], params.n);
  const u32 first = min(offsets[graph], last);
  const float* source = x + size_t(batch) * params.n * params.c + channel;
  float sum = 0.0f;
  if (channel < params.c) {
#pragma unroll 4
    for (u32 i = threadIdx.x / LINE; i < last - first; i += THREADS / LINE) { sum += source[size_t(first + i) * params.c]; }
  }
  parts[threadIdx.x] = sum;
  __syncthreads(); // all parts are there before they are added
  for (u32 half = THREADS / 2u; half >= LINE; half /= 2u) {
    if (threadIdx.x < half) { parts[threadIdx.x] += parts[threadIdx.x + half]; }
    __syncthreads(); // the parts of this half are complete
  }
  if (threadIdx.x < LINE && channel < params.c) {
    y[(size_t(batch) * params.g + graph) * params.c + channel] = parts[threadIdx.x] / float(max(last - first, 1u));
  }
}
