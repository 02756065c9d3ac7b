// A stand-in for cuFFT, libcufft.so.11: many complex transforms in one dimension, as far apart as the plan says, in f64 inside and without
// a factor in either direction.
//
// WGATTN_STANDIN_FFT_STATUS (what a transform answers, if not 0).
#include "standin.h"
#include <cmath>
#include <complex>
#include <map>
#include <mutex>
#include <vector>

using namespace standin;

namespace {

enum Result {
  SUCCESS = 0,
  INVALID_PLAN = 1,
  ALLOC_FAILED = 2,
  INVALID_TYPE = 3,
  INVALID_VALUE = 4,
  EXEC_FAILED = 6,
  SETUP_FAILED = 7,
  INVALID_SIZE = 8,
  UNALIGNED_DATA = 9,
};
const int C2C = 0x29;

struct Plan {
  bool made = false;
  long long length = 0, from_stride = 1, from_distance = 0, to_stride = 1, to_distance = 0, batch = 0;
  void* stream = nullptr;
  uint64_t workspace = 0;
};

std::mutex lock;
std::map<int, Plan> plans;
int next_plan = 1;

typedef std::complex<double> Z;

// Sums as they are defined, of halves while the length is even.
std::vector<Z> transformed(const std::vector<Z>& x, int direction) {
  const size_t length = x.size();
  std::vector<Z> out(length);
  if (length > 1 && length % 2 == 0) {
    std::vector<Z> even, odd;
    for (size_t i = 0; i < length; i++) { (i % 2 ? odd : even).push_back(x[i]); }
    even = transformed(even, direction);
    odd = transformed(odd, direction);
    for (size_t k = 0; k < length; k++) {
      out[k] = even[k % (length / 2)] + std::polar(1.0, direction * 2 * M_PI * (double)k / (double)length) * odd[k % (length / 2)];
    }
    return out;
  }
  for (size_t k = 0; k < length; k++) {
    for (size_t j = 0; j < length; j++) {
      out[k] += x[j] * std::polar(1.0, direction * 2 * M_PI * (double)(j * k % length) / (double)length);
    }
  }
  return out;
}

} // namespace

API int cufftGetProperty(int which, int* value) {
  const int version[] = {11, 4, 1};
  if (which < 0 || which > 2) { return INVALID_VALUE; }
  *value = version[which];
  return SUCCESS;
}

API int cufftCreate(int* plan) {
  std::lock_guard<std::mutex> hold(lock);
  *plan = next_plan++;
  plans[*plan] = Plan();
  return SUCCESS;
}

API int cufftMakePlanMany(int handle, int rank, const int* n, const int* from_embed, int from_stride, int from_distance,
                          const int* to_embed, int to_stride, int to_distance, int type, int batch, size_t* workspace) {
  std::lock_guard<std::mutex> hold(lock);
  auto plan = plans.find(handle);
  if (plan == plans.end() || plan->second.made) { return INVALID_PLAN; }
  if (type != C2C) { return INVALID_TYPE; }
  if (rank != 1 || !n || !workspace) { return INVALID_VALUE; }
  if (n[0] < 1 || batch < 1) { return INVALID_SIZE; }
  if (from_stride < 1 || to_stride < 1 || from_distance < 0 || to_distance < 0) { return INVALID_VALUE; }
  if (ready_to_wait()) { return SETUP_FAILED; }
  Plan made;
  made.made = true;
  made.length = n[0];
  made.batch = batch;
  // Without embeddings the strides do not count: lines lie close, one after another.
  const bool advanced = from_embed && to_embed;
  made.from_stride = advanced ? from_stride : 1;
  made.to_stride = advanced ? to_stride : 1;
  made.from_distance = advanced ? from_distance : n[0];
  made.to_distance = advanced ? to_distance : n[0];
  *workspace = 8 * (size_t)n[0] * batch;
  if (take(&made.workspace, *workspace)) { return ALLOC_FAILED; }
  plan->second = made;
  return SUCCESS;
}

API int cufftSetStream(int handle, void* stream) {
  std::lock_guard<std::mutex> hold(lock);
  auto plan = plans.find(handle);
  if (plan == plans.end()) { return INVALID_PLAN; }
  plan->second.stream = stream;
  return SUCCESS;
}

API int cufftExecC2C(int handle, void* from, void* to, int direction) {
  Plan plan;
  {
    std::lock_guard<std::mutex> hold(lock);
    auto found = plans.find(handle);
    if (found == plans.end() || !found->second.made) { return INVALID_PLAN; }
    plan = found->second;
  }
  if (!from || !to || (direction != -1 && direction != 1)) { return INVALID_VALUE; }
  if ((uint64_t)from % 8 != 0 || (uint64_t)to % 8 != 0) {
    note("mistake fft: numbers that begin at no multiple of 8 bytes");
    return UNALIGNED_DATA;
  }
  if (ready()) { return EXEC_FAILED; }
  if (int code = (int)number("FFT_STATUS", 0)) { return code; }
  note("fft length=%lld batch=%lld stride=%lld distance=%lld direction=%d", plan.length, plan.batch, plan.from_stride,
       plan.from_distance, direction);
  const int code = put(plan.stream, "fft", [=] {
    const auto bytes = [&](long long stride, long long distance) {
      return (size_t)(8 * ((plan.batch - 1) * distance + (plan.length - 1) * stride + 1));
    };
    if (!holds("fft: from", (uint64_t)from, bytes(plan.from_stride, plan.from_distance)) ||
        !holds("fft: to", (uint64_t)to, bytes(plan.to_stride, plan.to_distance)) || !holds("fft: workspace", plan.workspace, 8)) {
      return 700;
    }
    std::vector<Z> line(plan.length);
    for (long long one = 0; one < plan.batch; one++) {
      for (long long j = 0; j < plan.length; j++) {
        const float* x = (const float*)from + 2 * (one * plan.from_distance + j * plan.from_stride);
        line[j] = Z(x[0], x[1]);
      }
      const std::vector<Z> out = transformed(line, direction);
      for (long long j = 0; j < plan.length; j++) {
        float* y = (float*)to + 2 * (one * plan.to_distance + j * plan.to_stride);
        y[0] = (float)out[j].real();
        y[1] = (float)out[j].imag();
      }
    }
    return 0;
  });
  return code ? EXEC_FAILED : SUCCESS;
}

API int cufftDestroy(int handle) {
  std::lock_guard<std::mutex> hold(lock);
  auto plan = plans.find(handle);
  if (plan == plans.end()) { return INVALID_PLAN; }
  if (plan->second.workspace && !ready_to_wait()) { give(plan->second.workspace); }
  plans.erase(plan);
  return SUCCESS;
}
