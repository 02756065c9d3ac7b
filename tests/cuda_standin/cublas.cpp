// A stand-in for cuBLAS, libcublas.so.12: batched products of f32 matrices, column by column, with operands rounded where the caller asks
// for TF32 or BF16. Sums are f64, rounded at the end.
//
// WGATTN_STANDIN_GEMM_STATUS (what a product answers, if not 0).
#include "standin.h"
#include <cmath>
#include <cstring>
#include <set>

using namespace standin;

namespace {

enum Status { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { R_32F = 0, COMPUTE_32F = 68, COMPUTE_BF16 = 75, COMPUTE_TF32 = 77 };

struct Handle {
  void* stream = nullptr;
  uint64_t own = 0, workspace = 0;
  size_t bytes = 0;
  int math = 0;
};

std::set<Handle*> handles;

// To the nearest of numbers with `bits` behind the point, to even ones where two are as near.
double rounded(float x, int bits) {
  if (!std::isfinite(x) || x == 0) { return x; }
  int exponent;
  const double fraction = std::frexp((double)x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits + 1)), exponent - bits - 1);
}

int bits_of(int compute) { return compute == COMPUTE_TF32 ? 10 : compute == COMPUTE_BF16 ? 7 : 23; }

} // namespace

API int cublasGetProperty(int which, int* value) {
  const int version[] = {12, 9, 1};
  if (which < 0 || which > 2) { return INVALID_VALUE; }
  *value = version[which];
  return SUCCESS;
}

API int cublasCreate_v2(Handle** handle) {
  if (ready_to_wait()) { return NOT_INITIALIZED; }
  Handle* made = new Handle;
  if (take(&made->own, 1 << 16)) {
    delete made;
    return ALLOC_FAILED;
  }
  handles.insert(made);
  *handle = made;
  return SUCCESS;
}

API int cublasDestroy_v2(Handle* handle) {
  if (!handles.count(handle)) { return NOT_INITIALIZED; }
  if (!ready_to_wait()) { give(handle->own); }
  handles.erase(handle);
  delete handle;
  return SUCCESS;
}

API int cublasSetStream_v2(Handle* handle, void* stream) {
  if (!handles.count(handle)) { return NOT_INITIALIZED; }
  handle->stream = stream;
  // As documented: a stream comes with the library's own memory to work in.
  handle->workspace = 0;
  return SUCCESS;
}

API int cublasSetWorkspace_v2(Handle* handle, uint64_t at, size_t bytes) {
  if (!handles.count(handle)) { return NOT_INITIALIZED; }
  if (at % 256 != 0 || !holds("cublasSetWorkspace", at, bytes)) { return INVALID_VALUE; }
  handle->workspace = at;
  handle->bytes = bytes;
  return SUCCESS;
}

API int cublasSetMathMode(Handle* handle, int mode) {
  if (!handles.count(handle)) { return NOT_INITIALIZED; }
  handle->math = mode;
  return SUCCESS;
}

API int cublasGemmStridedBatchedEx(Handle* handle, int op_a, int op_b, int m, int n, int k, const void* alpha_at, const void* a,
                                   int a_type, int lda, long long stride_a, const void* b, int b_type, int ldb, long long stride_b,
                                   const void* beta_at, void* c, int c_type, int ldc, long long stride_c, int batch, int compute, int) {
  if (!handles.count(handle)) { return NOT_INITIALIZED; }
  if (ready()) { return EXECUTION_FAILED; }
  if (int code = (int)number("GEMM_STATUS", 0)) { return code; }
  if (a_type != R_32F || b_type != R_32F || c_type != R_32F || handle->math != 0 ||
      (compute != COMPUTE_32F && compute != COMPUTE_TF32 && compute != COMPUTE_BF16)) {
    return NOT_SUPPORTED;
  }
  // 0: as it is; 1: transposed.
  const int rows_a = op_a == 0 ? m : k, columns_a = op_a == 0 ? k : m, rows_b = op_b == 0 ? k : n, columns_b = op_b == 0 ? n : k;
  if (op_a < 0 || op_a > 1 || op_b < 0 || op_b > 1 || m < 0 || n < 0 || k < 0 || batch < 0 || lda < (rows_a > 1 ? rows_a : 1) ||
      ldb < (rows_b > 1 ? rows_b : 1) || ldc < (m > 1 ? m : 1) || !alpha_at || !beta_at) {
    note("mistake gemm: m=%d n=%d k=%d lda=%d ldb=%d ldc=%d batch=%d ops=%d%d", m, n, k, lda, ldb, ldc, batch, op_a, op_b);
    return INVALID_VALUE;
  }
  if (m == 0 || n == 0 || batch == 0) { return SUCCESS; }
  if ((k > 0 && (!a || !b)) || !c) {
    note("mistake gemm: a null pointer");
    return INVALID_VALUE;
  }
  if (batch > 1 && stride_c < (long long)ldc * (n - 1) + m) {
    note("mistake gemm: results of a batch lie over each other");
    return INVALID_VALUE;
  }
  if (is_captured(handle->stream) && !handle->workspace) {
    note("mistake gemm: captured without memory given to it");
    return NOT_SUPPORTED;
  }
  const float alpha = *(const float*)alpha_at, beta = *(const float*)beta_at;
  note("gemm m=%d n=%d k=%d batch=%d compute=%d", m, n, k, batch, compute);
  const int code = put(handle->stream, "gemm", [=] {
    const size_t bytes_a = 4 * ((batch - 1) * stride_a + (long long)lda * (columns_a - 1) + rows_a);
    const size_t bytes_b = 4 * ((batch - 1) * stride_b + (long long)ldb * (columns_b - 1) + rows_b);
    const size_t bytes_c = 4 * ((batch - 1) * stride_c + (long long)ldc * (n - 1) + m);
    if (k > 0 && (!holds("gemm: a", (uint64_t)a, bytes_a) || !holds("gemm: b", (uint64_t)b, bytes_b))) { return 700; }
    if (!holds("gemm: c", (uint64_t)c, bytes_c)) { return 700; }
    const int bits = bits_of(compute);
    for (int one = 0; one < batch; one++) {
      const float *from_a = (const float*)a + one * stride_a, *from_b = (const float*)b + one * stride_b;
      float* to = (float*)c + one * stride_c;
      for (int j = 0; j < n; j++) {
        for (int i = 0; i < m; i++) {
          double sum = 0;
          for (int l = 0; l < k; l++) {
            const float x = op_a == 0 ? from_a[i + (size_t)l * lda] : from_a[l + (size_t)i * lda];
            const float y = op_b == 0 ? from_b[l + (size_t)j * ldb] : from_b[j + (size_t)l * ldb];
            sum += bits == 23 ? (double)x * y : rounded(x, bits) * rounded(y, bits);
          }
          float& result = to[i + (size_t)j * ldc];
          // What is there is not read where it does not count.
          result = (float)(alpha * sum + (beta == 0 ? 0.0 : (double)beta * result));
        }
      }
    }
    return 0;
  });
  return code ? EXECUTION_FAILED : SUCCESS;
}

API const char* cublasGetStatusName(int code) {
  switch (code) {
  case NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
  case ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
  case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
  case EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
  case NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  default: return nullptr;
  }
}
