// SPDX-License-Identifier: Apache-2.0
// Halide as a peer: the expressions of bench/expressions, and convolutions. The pipelines are
// written as is usual in Halide, scheduled by Halide's Adams2019 autoscheduler, and compiled in
// this process. Dimension 0 is the innermost, as always in Halide.

#include <Halide.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "base/isa.h"
#include "base/text.h"
#include "bench/peers/peer.h"

namespace tw::bench {
namespace {

using Halide::cast;
using Halide::Expr;
using Halide::Func;
using Halide::ImageParam;
using Halide::Var;

/// A pipeline: its inputs in the order of the expression, and its output.
struct Declared {
  std::vector<ImageParam> inputs;
  Func output;
  /// The orders of dimensions of the inputs, and last that of the output. An order has, for each
  /// dimension of the logical array, the index of that dimension in the pipeline's array. Empty if
  /// all arrays are row-major.
  std::vector<std::vector<int>> orders = {};
};

Declared declare_blur() {
  Var x("x"), y("y");
  ImageParam image(Halide::Float(32), 2, "image");
  Func rows("rows"), out("out");
  const auto column = [](const Expr& at) { return Halide::clamp(at, 0, 1919); };
  const auto row = [](const Expr& at) { return Halide::clamp(at, 0, 1079); };
  rows(x, y) = (image(column(x - 1), y) + image(x, y) + image(column(x + 1), y)) / 3.0f;
  out(x, y) = (rows(x, row(y - 1)) + rows(x, y) + rows(x, row(y + 1))) / 3.0f;
  return {{image}, out};
}

Declared declare_color() {
  Var x("x"), y("y"), c("c");
  ImageParam rgb(Halide::UInt(8), 3, "rgb"), matrix(Halide::Float(32), 2, "matrix"),
      offset(Halide::Float(32), 1, "offset");
  Expr mixed = offset(c) + 0.5f;
  for (int k = 0; k < 3; ++k) mixed += matrix(k, c) * cast<float>(rgb(k, x, y));
  Func out("out");
  out(x, y, c) = cast<uint8_t>(Halide::clamp(Halide::floor(mixed), 0.0f, 255.0f));
  return {{rgb, matrix, offset}, out};
}

Declared declare_int_conv5x5() {
  Var x("x"), y("y");
  ImageParam image(Halide::UInt(8), 2, "image"), taps(Halide::Int(32), 2, "taps");
  const Func padded =
      Halide::BoundaryConditions::constant_exterior(image, 0, {{0, 1920}, {0, 1080}});
  Expr sum = 0;
  for (int r = 0; r < 5; ++r)
    for (int s = 0; s < 5; ++s) sum += cast<int32_t>(padded(x + s - 2, y + r - 2)) * taps(s, r);
  Func out("out");
  out(x, y) = sum;
  return {{image, taps}, out};
}

Declared declare_pairwise() {
  Var i("i"), j("j");
  ImageParam a(Halide::Float(32), 2, "a"), b(Halide::Float(32), 2, "b");
  const Halide::RDom d(0, 64, "d");
  const Expr difference = a(d, i) - b(d, j);
  Func squares("squares"), out("out");
  squares(j, i) += difference * difference;
  out(j, i) = Halide::sqrt(squares(j, i));
  return {{a, b}, out};
}

Declared declare_softmax() {
  Var i("i"), j("j");
  ImageParam in(Halide::Float(32), 2, "in");
  const Halide::RDom all(0, 128, "all");
  Func peak("peak"), e("e"), total("total"), out("out");
  peak(i) = Halide::Float(32).min();
  peak(i) = Halide::max(peak(i), in(all, i));
  e(j, i) = Halide::exp(in(j, i) - peak(i));
  total(i) += e(all, i);
  out(j, i) = e(j, i) / total(i);
  return {{in}, out};
}

/// Declares a convolution with channels innermost, as in Halide's own example of a convolution
/// layer.
Result<Declared> declare_conv2d(const dsl::Workload& workload) {
  const auto at = [&](const char* name) { return static_cast<int>(workload.attributes.at(name)); };
  for (const char* epilogue : {"bias", "residual", "relu"})
    if (const auto it = workload.attributes.find(epilogue);
        it != workload.attributes.end() && it->second != 0)
      return fail(ErrorCode::Unsupported,
                  fmt::format("[halide] {}: is compared without it", epilogue));
  if (at("groups") != 1 || workload.dtype != Float32)
    return fail(ErrorCode::Unsupported, "[halide] convolutions: expected one group, f32");
  Var x("x"), y("y"), k("k"), n("n");
  ImageParam in(Halide::Float(32), 4, "in"), w(Halide::Float(32), 4, "w");
  const Func padded = Halide::BoundaryConditions::constant_exterior(
      in, 0.0f, {{Expr(), Expr()}, {0, at("w")}, {0, at("h")}, {Expr(), Expr()}});
  const Halide::RDom tap({{0, at("c")}, {0, at("s")}, {0, at("r")}}, "tap");
  const Expr column = x * at("stride_w") + tap.y * at("dilation_w") - at("pad_left"),
             row = y * at("stride_h") + tap.z * at("dilation_h") - at("pad_top");
  Func sum("sum"), out("out");
  sum(k, x, y, n) += w(k, tap.y, tap.z, tap.x) * padded(tap.x, column, row, n);
  out(k, x, y, n) = sum(k, x, y, n);
  // Logical arrays are in(x, y, c, n), w(s, r, c, k) and out(x, y, k, n).
  return Declared{{in, w}, out, {{1, 2, 0, 3}, {1, 2, 3, 0}, {1, 2, 0, 3}}};
}

const std::map<std::string, Declared (*)()>& declarations() {
  static const std::map<std::string, Declared (*)()> table = {{"blur", declare_blur},
                                                              {"color", declare_color},
                                                              {"int_conv5x5", declare_int_conv5x5},
                                                              {"pairwise", declare_pairwise},
                                                              {"softmax", declare_softmax}};
  return table;
}

Halide::Type type_of(DType type) {
  const int bits = 8 * size_bytes(type);
  if (is_float(type)) return Halide::Float(bits);
  return is_signed(type) ? Halide::Int(bits) : Halide::UInt(bits);
}

std::vector<int> extents_of(const dsl::Array& array) {
  return {array.shape.rbegin(), array.shape.rend()};
}

Halide::Buffer<> buffer_of(dsl::Array& array) {
  return Halide::Buffer<>(type_of(array.type), array.data.data(), extents_of(array));
}

/// Returns a copy of the array with its dimensions in the pipeline's order; the array itself if
/// `orders` is empty.
Halide::Buffer<> ordered(const Halide::Buffer<>& logical,
                         const std::vector<std::vector<int>>& orders, size_t which) {
  if (orders.empty()) return logical;
  const Halide::Buffer<> transposed = logical.transposed(orders[which]);
  std::vector<int> extents;
  for (int d = 0; d < transposed.dimensions(); ++d) extents.push_back(transposed.dim(d).extent());
  Halide::Buffer<> copy(logical.type(), extents);
  copy.copy_from(transposed);
  return copy;
}

/// Returns the target for this machine, without the instruction sets that our limit excludes. If
/// HL_JIT_TARGET names a target, that target is returned.
Halide::Target jit_target() {
  using T = Halide::Target;
  struct Row {
    std::string_view isa;
    std::vector<T::Feature> features;  // features that the earlier sets lack
  };
  static const std::vector<Row> rows = {{"sse41", {T::SSE41}},
                                        {"avx", {T::AVX}},
                                        {"avx2", {T::AVX2, T::F16C, T::FMA, T::FMA4}},
                                        {"avx512", {T::AVX512, T::AVX512_KNL, T::AVX512_Skylake}},
                                        {"avx512_vnni", {T::AVX512_Cannonlake, T::AVXVNNI}},
                                        {"avx512_bf16", {T::AVX512_Zen4, T::AVX512_Zen5}},
                                        {"avx512_fp16", {}},
                                        {"amx", {T::AVX512_SapphireRapids, T::AVX10_1}}};
  Halide::Target target = Halide::get_jit_target_from_environment();
  const auto limit = max_isa();
  if (!limit || std::getenv("HL_JIT_TARGET")) return target;
  bool is_beyond = false;
  for (const Row& row : rows) {
    for (const T::Feature feature : row.features)
      if (is_beyond) target.set_feature(feature, false);
    is_beyond = is_beyond || row.isa == *limit;
  }
  return target;
}

class HalideKernel : public Contender {
 public:
  HalideKernel(Declared declared, const Setup& setup) : declared_(std::move(declared)) {
    for (const dsl::Input& input : setup.workload->compute.inputs)
      inputs_.push_back(setup.inputs->at(input.name));
  }

  /// Schedules and compiles the pipeline. Throws Halide's errors.
  Status prepare(const Setup& setup) {
    const dsl::Compute& compute = setup.workload->compute;
    name_ = compute.outputs[0];
    TW_TRY(output_, dsl::Array::make(compute.type_of(name_), compute.shape_of(name_)));
    Func& out = declared_.output;
    result_ = ordered(buffer_of(output_), declared_.orders, inputs_.size());
    for (int d = 0; d < result_.dimensions(); ++d)
      out.set_estimate(out.args()[static_cast<size_t>(d)], 0, result_.dim(d).extent());
    std::vector<Halide::Argument> arguments;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      buffers_.push_back(ordered(buffer_of(inputs_[i]), declared_.orders, i));
      ImageParam& input = declared_.inputs[i];
      for (int d = 0; d < input.dimensions(); ++d)
        input.dim(d).set_estimate(0, buffers_[i].dim(d).extent());
      arguments.push_back(input);
    }
    const Halide::Target target = jit_target();
    Halide::Pipeline pipeline(out);
    pipeline.apply_autoscheduler(target,
                                 {"Adams2019", {{"parallelism", std::to_string(setup.threads)}}});
    callable_ = pipeline.compile_to_callable(arguments, target);
    Halide::Internal::JITSharedRuntime::set_num_threads(setup.threads);
    return {};
  }

  Status run(int64_t) override {
    try {
      const int failure = call();
      if (failure == 0) return {};
      return fail(ErrorCode::Internal, fmt::format("[halide] '{}' fails with {}", name_, failure));
    } catch (const Halide::Error& error) {
      return fail(ErrorCode::Internal, fmt::format("[halide] {}", trim(error.what())));
    }
  }

  Result<dsl::Arrays> outputs() override {
    if (!declared_.orders.empty())
      buffer_of(output_).transposed(declared_.orders.back()).copy_from(*result_.get());
    return dsl::Arrays{{name_, output_}};
  }

  std::string description() const override { return "Adams2019"; }

 private:
  int call() {
    switch (buffers_.size()) {
      case 1:
        return callable_(buffers_[0], result_);
      case 2:
        return callable_(buffers_[0], buffers_[1], result_);
      default:
        return callable_(buffers_[0], buffers_[1], buffers_[2], result_);
    }
  }

  Declared declared_;
  std::string name_;
  std::vector<dsl::Array> inputs_;
  dsl::Array output_;
  std::vector<Halide::Buffer<>> buffers_;
  Halide::Buffer<> result_;
  Halide::Callable callable_;
};

void load_autoscheduler() {
  static std::once_flag once;
  std::call_once(once,
                 [] { Halide::load_plugin(TW_HALIDE_LIBRARIES "/libautoschedule_adams2019.so"); });
}

Result<Declared> declare(const std::string& item, const dsl::Workload& workload) {
  if (workload.op == "conv2d") return declare_conv2d(workload);
  const auto found = declarations().find(item);
  if (found != declarations().end()) return found->second();
  std::vector<std::string> known;
  for (const auto& [name, unused] : declarations()) known.push_back(name);
  return fail(ErrorCode::Unsupported,
              fmt::format("[halide] there is no pipeline '{}'; known: conv2d, {}", item,
                          join(known, ", ")));
}

Result<std::vector<std::unique_ptr<Contender>>> make_kernel(const std::string& item,
                                                            const Setup& setup) {
  if (setup.cache != CacheState::Hot)
    return fail(
        ErrorCode::Unsupported,
        fmt::format("[halide] --state {}: its kernels are compared hot", to_string(setup.cache)));
  std::vector<std::unique_ptr<Contender>> variants;
  try {
    load_autoscheduler();
    TW_TRY(Declared declared, declare(item, *setup.workload));
    auto kernel = std::make_unique<HalideKernel>(std::move(declared), setup);
    TW_RETURN_IF_ERROR(kernel->prepare(setup));
    variants.push_back(std::move(kernel));
  } catch (const Halide::Error& error) {
    return fail(ErrorCode::Internal, fmt::format("[halide] {}: {}", item, trim(error.what())));
  }
  return variants;
}

}  // namespace

Peer halide_peer() {
  return {"halide",
          fmt::format("{}.{}.{}", HALIDE_VERSION_MAJOR, HALIDE_VERSION_MINOR, HALIDE_VERSION_PATCH),
          make_kernel, true};
}

}  // namespace tw::bench
