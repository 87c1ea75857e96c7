// SPDX-License-Identifier: Apache-2.0
// cuBLAS as a peer. A product has two forms: one with both operands row-major, and one with the
// second operand transposed before the call. Products of f32 are computed without TF32; products of
// f16 and bf16 are summed in f32.

#include <fmt/format.h>

#include <array>

#include "bench/peers/device_contender.h"
#include "bench/peers/peer.h"
#include "bench/peers/vendor_library.h"

namespace tw::bench {
namespace {

// Declarations from cublas_api.h and library_types.h. Only toolkits install these headers, so the
// declarations are repeated here; they are equal in all versions since CUDA 11.
using Handle = struct CublasContext*;
using Code = int;  // cublasStatus_t; 0 is success
enum Operation : int { Plain = 0, Transposed = 1 };
enum DataType : int { R32F = 0, R16F = 2, R16BF = 14 };
constexpr int compute_f32 = 68;  // CUBLAS_COMPUTE_32F; the math mode decides about TF32
constexpr int default_math = 0;  // without TF32
constexpr int default_algorithm = -1;

#define TW_CUBLAS_FUNCTIONS(X)                                                                     \
  X(cublasGetProperty, int, int*)                                                                  \
  X(cublasCreate_v2, Handle*)                                                                      \
  X(cublasDestroy_v2, Handle)                                                                      \
  X(cublasSetStream_v2, Handle, void*)                                                             \
  X(cublasSetWorkspace_v2, Handle, void*, size_t)                                                  \
  X(cublasSetMathMode, Handle, int)                                                                \
  X(cublasGemmStridedBatchedEx, Handle, Operation, Operation, int, int, int, const void*,          \
    const void*, DataType, int, long long, const void*, DataType, int, long long, const void*,     \
    void*, DataType, int, long long, int, int, int)                                                \
  X(cublasGemmEx, Handle, Operation, Operation, int, int, int, const void*, const void*, DataType, \
    int, const void*, DataType, int, const void*, void*, DataType, int, int, int)

struct Cublas {
#define X(name, ...) Code (*name)(__VA_ARGS__) = nullptr;
  TW_CUBLAS_FUNCTIONS(X)
#undef X
};

// Size of the workspace that NVIDIA recommends for Hopper. It is allocated before the calls,
// because nothing can be allocated while a graph is recorded.
constexpr int64_t workspace_bytes = int64_t{32} << 20;

Status check(Code code, std::string_view what) {
  if (code == 0) return {};
  return fail(ErrorCode::Environment, fmt::format("[cublas] {}: status {}", what, code));
}

struct Product {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  std::string output;
  DType in = Float32, out = Float32;
};

Result<Product> product_of(const dsl::Workload& workload) {
  if (workload.op != "dense" && workload.op != "batch_matmul")
    return fail(ErrorCode::Unsupported,
                fmt::format("[cublas] '{}': expected dense or batch_matmul", workload.op));
  TW_RETURN_IF_ERROR(check_no_epilogue("cublas", workload));
  const auto at = [&](const char* name) { return workload.attributes.at(name); };
  Product p{1, at("m"), at("n"), at("k"), workload.compute.outputs[0], workload.dtype, Float32};
  if (workload.op == "batch_matmul") p.batch = at("b");
  p.out = workload.compute.type_of(p.output);
  return p;
}

Result<DataType> data_type(DType type) {
  if (type == Float32) return R32F;
  if (type == Float16) return R16F;
  if (type == BFloat16) return R16BF;
  return fail(ErrorCode::Unsupported,
              fmt::format("[cublas] {}: expected f32, f16 or bf16", to_string(type)));
}

class CublasProduct final : public DeviceContender {
 public:
  CublasProduct(const Cublas& cublas, Product product, Operation second, const Setup& setup)
      : DeviceContender(*setup.gpu), cublas_(cublas), p_(std::move(product)), second_(second) {}

  ~CublasProduct() override {
    if (handle_ == nullptr) return;
    (void)device().submit([this](void* queue) {
      cublas_.cublasSetStream_v2(handle_,
                                 queue);  // the stream of a graph's recording no longer exists
      return check(cublas_.cublasDestroy_v2(handle_), "cublasDestroy");
    });
  }

  Status prepare(const dsl::Workload& workload, const dsl::Arrays& inputs) {
    TW_TRY(in_, data_type(p_.in));
    TW_TRY(out_, data_type(p_.out));
    const std::vector<std::byte>& b = inputs.at("b").data;
    TW_TRY(a_, upload(inputs.at("a").data));
    TW_TRY(b_, upload(second_ == Plain ? b
                                       : swapped(b, {p_.batch, p_.k, p_.n},
                                                 static_cast<size_t>(size_bytes(p_.in)))));
    TW_TRY(dsl::Array array, dsl::Array::make(p_.out, workload.compute.shape_of(p_.output)));
    result_ = std::move(array);
    TW_TRY(c_, device().allocate(static_cast<int64_t>(result_.data.size())));
    TW_TRY(workspace_, device().allocate(workspace_bytes));
    return device().submit([this](void*) -> Status {
      TW_RETURN_IF_ERROR(check(cublas_.cublasCreate_v2(&handle_), "cublasCreate"));
      return check(cublas_.cublasSetMathMode(handle_, default_math), "cublasSetMathMode");
    });
  }

  Result<dsl::Arrays> outputs() override {
    TW_TRY(result_.data, download(c_));
    return dsl::Arrays{{p_.output, result_}};
  }

  std::string description() const override {
    return fmt::format("gemm row-major, second operand {}",
                       second_ == Plain ? "row-major" : "transposed");
  }

 private:
  // cuBLAS is column-major, so it computes the transposed product with the operands exchanged.
  Status submit(void* queue) override {
    TW_RETURN_IF_ERROR(check(cublas_.cublasSetStream_v2(handle_, queue), "cublasSetStream"));
    TW_RETURN_IF_ERROR(
        check(cublas_.cublasSetWorkspace_v2(handle_, workspace_.address(), workspace_bytes),
              "cublasSetWorkspace"));
    const int m = static_cast<int>(p_.m), n = static_cast<int>(p_.n), k = static_cast<int>(p_.k);
    const int b_row = second_ == Plain ? n : k;
    if (p_.batch == 1)
      return check(cublas_.cublasGemmEx(handle_, second_, Plain, n, m, k, &one_, b_.address(), in_,
                                        b_row, a_.address(), in_, k, &zero_, c_.address(), out_, n,
                                        compute_f32, default_algorithm),
                   "cublasGemmEx");
    return check(cublas_.cublasGemmStridedBatchedEx(
                     handle_, second_, Plain, n, m, k, &one_, b_.address(), in_, b_row, p_.k * p_.n,
                     a_.address(), in_, k, p_.m * p_.k, &zero_, c_.address(), out_, n, p_.m * p_.n,
                     static_cast<int>(p_.batch), compute_f32, default_algorithm),
                 "cublasGemmStridedBatchedEx");
  }

  const Cublas cublas_;
  const Product p_;
  const Operation second_;
  const float one_ = 1, zero_ = 0;
  Handle handle_ = nullptr;
  DataType in_ = R32F, out_ = R32F;
  runtime::DeviceBuffer a_, b_, c_, workspace_;
  dsl::Array result_;
};

Result<std::vector<std::unique_ptr<Contender>>> make_forms(const Cublas& cublas,
                                                           const Setup& setup) {
  TW_TRY(const Product product, product_of(*setup.workload));
  std::vector<std::unique_ptr<Contender>> forms;
  for (const Operation second : {Plain, Transposed}) {
    auto form = std::make_unique<CublasProduct>(cublas, product, second, setup);
    TW_RETURN_IF_ERROR(form->prepare(*setup.workload, *setup.inputs));
    forms.push_back(std::move(form));
  }
  return forms;
}

}  // namespace

Result<Peer> cublas_peer(const std::vector<std::string>& directories) {
  TW_TRY(const VendorLibrary library,
         VendorLibrary::open({"libcublas.so.13", "libcublas.so.12"}, directories,
                             "set CUDA_HOME to a CUDA toolkit, or LD_LIBRARY_PATH to its folder"));
  Cublas cublas;
#define X(name, ...) TW_RETURN_IF_ERROR(library.find(#name, cublas.name));
  TW_CUBLAS_FUNCTIONS(X)
#undef X
  std::array<int, 3> version = {};
  for (int part = 0; part < 3; ++part)
    cublas.cublasGetProperty(part, &version[static_cast<size_t>(part)]);
  return Peer{.name = "cublas",
              .version = fmt::format("{}.{}.{}", version[0], version[1], version[2]),
              .make = [cublas](const std::string&, const Setup& setup) {
                return make_forms(cublas, setup);
              }};
}

}  // namespace tw::bench
