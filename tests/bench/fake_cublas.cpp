// SPDX-License-Identifier: Apache-2.0
// A fake of libcublas.so.13. It really computes products of f32 matrices.

#include "tests/bench/fake_vendor.h"

namespace {

using tw::bench::FakeVendor;

constexpr int not_supported = 15, invalid_value = 7;

FakeVendor fake;

struct Context {
  void* stream = nullptr;
};

float at(const float* matrix, bool transposed, int row, int column, int stride) {
  return transposed ? matrix[row * int64_t{stride} + column]
                    : matrix[column * int64_t{stride} + row];
}

/// All matrices are column-major, as in cuBLAS.
void multiply(bool ta, bool tb, int m, int n, int k, const float* a, int lda, const float* b,
              int ldb, float* c, int ldc) {
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      float sum = 0;
      for (int p = 0; p < k; ++p) sum += at(a, ta, i, p, lda) * at(b, tb, p, j, ldb);
      c[j * int64_t{ldc} + i] = sum;
    }
}

}  // namespace

extern "C" {

FakeVendor* fake_vendor() { return &fake; }

int cublasGetProperty(int part, int* value) {
  constexpr int version[] = {13, 0, 2};
  *value = version[part];
  return 0;
}
int cublasCreate_v2(Context** handle) {
  *handle = new Context;
  ++fake.live;
  return 0;
}
int cublasDestroy_v2(Context* handle) {
  delete handle;
  --fake.live;
  return 0;
}
int cublasSetStream_v2(Context* handle, void* stream) {
  handle->stream = stream;
  return 0;
}
int cublasSetWorkspace_v2(Context*, void* memory, size_t) {
  return memory != nullptr ? 0 : invalid_value;
}
int cublasSetMathMode(Context*, int mode) { return mode == 0 ? 0 : not_supported; }

int cublasGemmStridedBatchedEx(Context* handle, int ta, int tb, int m, int n, int k,
                               const void* alpha, const void* a, int a_type, int lda,
                               long long a_step, const void* b, int b_type, int ldb,
                               long long b_step, const void* beta, void* c, int c_type, int ldc,
                               long long c_step, int count, int compute, int) {
  if (a_type != 0 || b_type != 0 || c_type != 0 || compute != 68) return not_supported;
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0)
    return invalid_value;
  tw::bench::submit(handle->stream, fake.microseconds, [=] {
    for (int i = 0; i < count; ++i)
      multiply(ta != 0, tb != 0, m, n, k, static_cast<const float*>(a) + i * a_step, lda,
               static_cast<const float*>(b) + i * b_step, ldb, static_cast<float*>(c) + i * c_step,
               ldc);
    *static_cast<float*>(c) += static_cast<float>(fake.error);
  });
  return 0;
}
int cublasGemmEx(Context* handle, int ta, int tb, int m, int n, int k, const void* alpha,
                 const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
                 const void* beta, void* c, int c_type, int ldc, int compute, int algorithm) {
  return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, a_type, lda, 0, b, b_type,
                                    ldb, 0, beta, c, c_type, ldc, 0, 1, compute, algorithm);
}

}  // extern "C"
