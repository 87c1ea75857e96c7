// SPDX-License-Identifier: Apache-2.0
// cuDNN as a peer. A convolution has two forms, with channels first and with channels last. For
// each form, cuDNN's own search chooses the fastest algorithm. Products of f32 are computed without
// TF32.

#include <fmt/format.h>

#include <array>

#include "bench/peers/device_contender.h"
#include "bench/peers/peer.h"
#include "bench/peers/vendor_library.h"

namespace tw::bench {
namespace {

// Declarations of cudnn.h, versions 8 and 9.
using Handle = struct CudnnContext*;
using Description = void*;  // describes a tensor, a filter or a convolution
using Code = int;           // cudnnStatus_t; 0 is success
enum Format : int { ChannelsFirst = 0, ChannelsLast = 1 };
enum DataType : int { DataFloat = 0, DataHalf = 2, DataBFloat16 = 9 };
enum Math : int { TensorOps = 1, Fma = 3 };
constexpr int cross_correlation = 1;

struct Performance {  // cudnnConvolutionFwdAlgoPerf_t
  int algorithm = 0;
  Code status = 0;
  float time_ms = 0;
  size_t workspace_bytes = 0;
  int determinism = 0;
  int math = 0;
  int reserved[3] = {};
};

#define TW_CUDNN_FUNCTIONS(X)                                                                  \
  X(cudnnCreate, Handle*)                                                                      \
  X(cudnnDestroy, Handle)                                                                      \
  X(cudnnSetStream, Handle, void*)                                                             \
  X(cudnnCreateTensorDescriptor, Description*)                                                 \
  X(cudnnDestroyTensorDescriptor, Description)                                                 \
  X(cudnnSetTensor4dDescriptor, Description, Format, DataType, int, int, int, int)             \
  X(cudnnCreateFilterDescriptor, Description*)                                                 \
  X(cudnnDestroyFilterDescriptor, Description)                                                 \
  X(cudnnSetFilter4dDescriptor, Description, DataType, Format, int, int, int, int)             \
  X(cudnnCreateConvolutionDescriptor, Description*)                                            \
  X(cudnnDestroyConvolutionDescriptor, Description)                                            \
  X(cudnnSetConvolution2dDescriptor, Description, int, int, int, int, int, int, int, DataType) \
  X(cudnnSetConvolutionGroupCount, Description, int)                                           \
  X(cudnnSetConvolutionMathType, Description, Math)                                            \
  X(cudnnFindConvolutionForwardAlgorithmEx, Handle, Description, const void*, Description,     \
    const void*, Description, Description, void*, int, int*, Performance*, void*, size_t)      \
  X(cudnnConvolutionForward, Handle, const void*, Description, const void*, Description,       \
    const void*, Description, int, void*, size_t, const void*, Description, void*)

struct Cudnn {
#define X(name, ...) Code (*name)(__VA_ARGS__) = nullptr;
  TW_CUDNN_FUNCTIONS(X)
#undef X
  size_t (*cudnnGetVersion)() = nullptr;
};

constexpr int64_t workspace_bytes = int64_t{512} << 20;

Status check(Code code, std::string_view what) {
  if (code == 0) return {};
  return fail(ErrorCode::Environment, fmt::format("[cudnn] {}: status {}", what, code));
}

struct Convolution {
  int n, c, h, w, k, r, s, groups, height, width;
  int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  DataType type;
  DType element;
  std::string output;
};

Result<Convolution> convolution_of(const dsl::Workload& workload) {
  if (workload.op != "conv2d")
    return fail(ErrorCode::Unsupported, fmt::format("[cudnn] '{}': expected conv2d", workload.op));
  TW_RETURN_IF_ERROR(check_no_epilogue("cudnn", workload));
  const auto at = [&](const char* name) { return static_cast<int>(workload.attributes.at(name)); };
  const std::string& output = workload.compute.outputs[0];
  const DType type = workload.dtype;
  if (workload.compute.type_of(output) != type ||
      (type != Float32 && type != Float16 && type != BFloat16))
    return fail(ErrorCode::Unsupported,
                fmt::format("[cudnn] {}: expected f32, f16 or bf16 in and out", to_string(type)));
  if (at("pad_top") != at("pad_bottom") || at("pad_left") != at("pad_right"))
    return fail(ErrorCode::Unsupported, "[cudnn] padding is the same on both sides");
  const std::vector<int64_t> dst = workload.compute.shape_of(output);
  return Convolution{at("n"),
                     at("c"),
                     at("h"),
                     at("w"),
                     at("k"),
                     at("r"),
                     at("s"),
                     at("groups"),
                     static_cast<int>(dst[dst.size() - 2]),
                     static_cast<int>(dst[dst.size() - 1]),
                     at("pad_top"),
                     at("pad_left"),
                     at("stride_h"),
                     at("stride_w"),
                     at("dilation_h"),
                     at("dilation_w"),
                     type == Float32   ? DataFloat
                     : type == Float16 ? DataHalf
                                       : DataBFloat16,
                     type,
                     output};
}

class CudnnConvolution final : public DeviceContender {
 public:
  CudnnConvolution(const Cudnn& cudnn, Convolution conv, Format format,
                   runtime::DeviceBuffer workspace, const Setup& setup)
      : DeviceContender(*setup.gpu),
        cudnn_(cudnn),
        conv_(std::move(conv)),
        format_(format),
        workspace_(std::move(workspace)) {}

  ~CudnnConvolution() override {
    (void)device().submit([this](void* queue) -> Status {
      if (handle_ != nullptr)
        cudnn_.cudnnSetStream(handle_, queue);  // a recording's stream is gone
      if (source_ != nullptr) cudnn_.cudnnDestroyTensorDescriptor(source_);
      if (target_ != nullptr) cudnn_.cudnnDestroyTensorDescriptor(target_);
      if (filter_ != nullptr) cudnn_.cudnnDestroyFilterDescriptor(filter_);
      if (convolution_ != nullptr) cudnn_.cudnnDestroyConvolutionDescriptor(convolution_);
      if (handle_ != nullptr) cudnn_.cudnnDestroy(handle_);
      return {};
    });
  }

  Status prepare(const dsl::Workload& workload, const dsl::Arrays& inputs) {
    const Convolution& v = conv_;
    TW_TRY(x_, upload(in_format(inputs.at("in").data, {v.n, v.c, int64_t{v.h} * v.w})));
    TW_TRY(w_, upload(in_format(inputs.at("w").data, {v.k, v.c / v.groups, int64_t{v.r} * v.s})));
    TW_TRY(dsl::Array array, dsl::Array::make(v.element, workload.compute.shape_of(v.output)));
    result_ = std::move(array);
    TW_TRY(y_, device().allocate(static_cast<int64_t>(result_.data.size())));
    return device().submit([this](void* queue) -> Status {
      TW_RETURN_IF_ERROR(describe());
      TW_RETURN_IF_ERROR(check(cudnn_.cudnnSetStream(handle_, queue), "cudnnSetStream"));
      return choose_algorithm();
    });
  }

  Result<dsl::Arrays> outputs() override {
    TW_TRY(const std::vector<std::byte> stored, download(y_));
    const int64_t plane = int64_t{conv_.height} * conv_.width;
    result_.data = format_ == ChannelsFirst
                       ? stored
                       : swapped(stored, {conv_.n, plane, conv_.k}, element_bytes());
    return dsl::Arrays{{conv_.output, result_}};
  }

  std::string description() const override {
    return fmt::format("algorithm {} {}", chosen_.algorithm,
                       format_ == ChannelsFirst ? "NCHW" : "NHWC");
  }

 private:
  size_t element_bytes() const { return static_cast<size_t>(size_bytes(conv_.element)); }

  std::vector<std::byte> in_format(const std::vector<std::byte>& bytes,
                                   const std::array<int64_t, 3>& shape) const {
    return format_ == ChannelsFirst ? bytes : swapped(bytes, shape, element_bytes());
  }

  Status describe() {
    const Convolution& v = conv_;
    const Cudnn& d = cudnn_;
    const Math math = v.type == DataFloat ? Fma : TensorOps;
    TW_RETURN_IF_ERROR(check(d.cudnnCreate(&handle_), "cudnnCreate"));
    TW_RETURN_IF_ERROR(check(d.cudnnCreateTensorDescriptor(&source_), "a source"));
    TW_RETURN_IF_ERROR(check(d.cudnnCreateTensorDescriptor(&target_), "a destination"));
    TW_RETURN_IF_ERROR(check(d.cudnnCreateFilterDescriptor(&filter_), "a filter"));
    TW_RETURN_IF_ERROR(check(d.cudnnCreateConvolutionDescriptor(&convolution_), "a convolution"));
    TW_RETURN_IF_ERROR(check(
        d.cudnnSetTensor4dDescriptor(source_, format_, v.type, v.n, v.c, v.h, v.w), "a source"));
    TW_RETURN_IF_ERROR(
        check(d.cudnnSetTensor4dDescriptor(target_, format_, v.type, v.n, v.k, v.height, v.width),
              "a destination"));
    TW_RETURN_IF_ERROR(
        check(d.cudnnSetFilter4dDescriptor(filter_, v.type, format_, v.k, v.c / v.groups, v.r, v.s),
              "a filter"));
    TW_RETURN_IF_ERROR(check(
        d.cudnnSetConvolution2dDescriptor(convolution_, v.pad_h, v.pad_w, v.stride_h, v.stride_w,
                                          v.dilation_h, v.dilation_w, cross_correlation, DataFloat),
        "a convolution"));
    TW_RETURN_IF_ERROR(check(d.cudnnSetConvolutionGroupCount(convolution_, v.groups), "groups"));
    return check(d.cudnnSetConvolutionMathType(convolution_, math), "the arithmetic");
  }

  /// Chooses the fastest algorithm that fits the workspace. cuDNN lists algorithms by time, fastest
  /// first.
  Status choose_algorithm() {
    std::array<Performance, 16> found = {};
    int count = 0;
    TW_RETURN_IF_ERROR(
        check(cudnn_.cudnnFindConvolutionForwardAlgorithmEx(
                  handle_, source_, x_.address(), filter_, w_.address(), convolution_, target_,
                  y_.address(), static_cast<int>(found.size()), &count, found.data(),
                  workspace_.address(), static_cast<size_t>(workspace_.bytes())),
              "cudnnFindConvolutionForwardAlgorithmEx"));
    for (int i = 0; i < count; ++i) {
      chosen_ = found[static_cast<size_t>(i)];
      if (chosen_.status == 0) return {};
    }
    return fail(ErrorCode::Unsupported, "[cudnn] no algorithm for the convolution");
  }

  Status submit(void* queue) override {
    TW_RETURN_IF_ERROR(check(cudnn_.cudnnSetStream(handle_, queue), "cudnnSetStream"));
    return check(
        cudnn_.cudnnConvolutionForward(handle_, &one_, source_, x_.address(), filter_, w_.address(),
                                       convolution_, chosen_.algorithm, workspace_.address(),
                                       chosen_.workspace_bytes, &zero_, target_, y_.address()),
        "cudnnConvolutionForward");
  }

  const Cudnn cudnn_;
  const Convolution conv_;
  const Format format_;
  const float one_ = 1, zero_ = 0;
  Handle handle_ = nullptr;
  Description source_ = nullptr, target_ = nullptr, filter_ = nullptr, convolution_ = nullptr;
  Performance chosen_;
  runtime::DeviceBuffer x_, w_, y_, workspace_;
  dsl::Array result_;
};

/// Makes the forms of a workload. A format that cuDNN does not support is left out. If it supports
/// neither format, the error of the last one is returned.
Result<std::vector<std::unique_ptr<Contender>>> make_forms(const Cudnn& cudnn, const Setup& setup) {
  TW_TRY(const Convolution conv, convolution_of(*setup.workload));
  TW_TRY(const runtime::DeviceBuffer workspace, setup.gpu->device->allocate(workspace_bytes));
  std::vector<std::unique_ptr<Contender>> forms;
  Status refusal;
  for (const Format format : {ChannelsFirst, ChannelsLast}) {
    auto form = std::make_unique<CudnnConvolution>(cudnn, conv, format, workspace, setup);
    if (const Status made = form->prepare(*setup.workload, *setup.inputs); made)
      forms.push_back(std::move(form));
    else
      refusal = made;
  }
  if (forms.empty()) return tl::unexpected<Error>(refusal.error());
  return forms;
}

}  // namespace

Result<Peer> cudnn_peer(const std::vector<std::string>& directories) {
  TW_TRY(const VendorLibrary library,
         VendorLibrary::open({"libcudnn.so.9", "libcudnn.so.8"}, directories,
                             "install cuDNN, or set LD_LIBRARY_PATH to its folder"));
  Cudnn cudnn;
#define X(name, ...) TW_RETURN_IF_ERROR(library.find(#name, cudnn.name));
  TW_CUDNN_FUNCTIONS(X)
#undef X
  TW_RETURN_IF_ERROR(library.find("cudnnGetVersion", cudnn.cudnnGetVersion));
  const size_t version = cudnn.cudnnGetVersion();  // 90501 is 9.5.1, 8907 is 8.9.7
  const size_t major = version >= 90000 ? 10000 : 1000;
  return Peer{
      .name = "cudnn",
      .version = fmt::format("{}.{}.{}", version / major, version % major / 100, version % 100),
      .make = [cudnn](const std::string&, const Setup& setup) { return make_forms(cudnn, setup); }};
}

}  // namespace tw::bench
