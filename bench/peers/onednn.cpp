// SPDX-License-Identifier: Apache-2.0
// oneDNN as a peer: each workload is computed by one primitive on f32, bf16 or 8-bit integers.
// Weights have the layout that oneDNN prefers. There are two forms: in one, sources and
// destinations have the layout that oneDNN prefers; in the other, they have the plain layout that
// networks use. Reorders are done before the calls.
//
// Builds of oneDNN have different thread runtimes. With OpenMP, a call is a function call. In the
// builds that packages offer since 2024, each call is submitted to a SYCL queue and runs on threads
// of TBB.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <dnnl.hpp>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "base/cores.h"
#include "base/integer.h"
#include "base/isa.h"
#include "base/text.h"
#include "bench/affinity.h"
#include "bench/databases/memory.h"
#include "bench/peers/peer.h"

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
#include <omp.h>
#endif

namespace tw::bench {
namespace {

constexpr bool queues_calls = DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_OMP;

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;
using Type = memory::data_type;

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// Returns the layout as a tag of oneDNN, such as "acdb" or "Acdb64a". The letters name the
/// dimensions from the outermost to the innermost, as capitals for dimensions that are blocked. The
/// blocks follow: "64a" is a block of 64 elements of dimension a.
std::string layout_text(const memory::desc& desc) {
  const Dims strides = desc.get_strides(), dims = desc.get_padded_dims();
  const Dims blocks = desc.get_inner_blks(), blocked = desc.get_inner_idxs();
  Dims factors(dims.size(), 1);
  for (size_t i = 0; i < blocks.size(); ++i) factors[static_cast<size_t>(blocked[i])] *= blocks[i];
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (strides[a] != strides[b]) return strides[a] > strides[b];
    return dims[a] / factors[a] > dims[b] / factors[b];
  });
  std::string text;
  for (const size_t d : order)
    text += static_cast<char>((factors[d] > 1 ? 'A' : 'a') + static_cast<char>(d));
  for (size_t i = 0; i < blocks.size(); ++i)
    text += fmt::format("{}{}", blocks[i], static_cast<char>('a' + blocked[i]));
  return text;
}

/// A tensor of the workload as the primitive sees it. `plain` is the tag of the logical row-major
/// array.
struct Operand {
  std::string name;
  Dims dims;
  Tag plain;
  Type type;
  memory::desc with(Tag tag) const { return {dims, type, tag}; }
  memory::desc logical() const { return with(plain); }
  memory::desc free() const { return with(Tag::any); }
};

/// The computation, without layouts.
struct Problem {
  bool is_product = false;
  Operand src, weights, dst;
  std::optional<Operand> scale = {};  ///< a scale for each channel or column of the result
  Dims strides, dilations, pad_before, pad_after;
};

/// Returns oneDNN's name for the type; nullopt if the type is not compared.
std::optional<Type> type_of(DType dtype) {
  if (dtype == Float32) return Type::f32;
  if (dtype == BFloat16) return Type::bf16;
  if (dtype == UInt8) return Type::u8;
  if (dtype == Int8) return Type::s8;
  return std::nullopt;
}

Result<Operand> operand(const dsl::Compute& compute, const std::string& name, Dims dims,
                        Tag plain) {
  const std::optional<Type> type = type_of(compute.type_of(name));
  if (type) return Operand{name, std::move(dims), plain, *type};
  return fail(ErrorCode::Unsupported,
              fmt::format("[onednn] is compared in f32, bf16, u8 and i8 only, '{}' is {}", name,
                          to_string(compute.type_of(name))));
}

Result<std::optional<Operand>> scale_of(const dsl::Compute& compute) {
  const dsl::Input* scale = compute.find_input("scale");
  if (!scale) return std::nullopt;
  if (scale->type != Float32)
    return fail(ErrorCode::Unsupported,
                fmt::format("[onednn] has scales of f32, not of {}", to_string(scale->type)));
  return operand(compute, "scale", {checked_product(compute.shape_of("scale")).value()}, Tag::a);
}

Result<Problem> conv_problem(const dsl::Workload& workload) {
  const auto at = [&](const char* name) { return workload.attributes.at(name); };
  const int64_t groups = at("groups");
  const dsl::Compute& compute = workload.compute;
  const std::string& out = compute.outputs[0];
  std::vector<int64_t> dst = compute.shape_of(out);
  const int64_t height = dst[dst.size() - 2], width = dst[dst.size() - 1];
  const Dims plain_weights = {at("k"), at("c"), at("r"), at("s")};
  const Dims grouped_weights = {groups, at("k") / groups, at("c") / groups, at("r"), at("s")};
  Problem p;
  TW_TRY(p.src, operand(compute, "in", {at("n"), at("c"), at("h"), at("w")}, Tag::nchw));
  TW_TRY(p.dst, operand(compute, out, {at("n"), at("k"), height, width}, Tag::nchw));
  TW_TRY(p.weights, groups == 1 ? operand(compute, "w", plain_weights, Tag::oihw)
                                : operand(compute, "w", grouped_weights, Tag::goihw));
  TW_TRY(p.scale, scale_of(compute));
  p.strides = {at("stride_h"), at("stride_w")};
  p.dilations = {at("dilation_h") - 1, at("dilation_w") - 1};
  p.pad_before = {at("pad_top"), at("pad_left")};
  p.pad_after = {at("pad_bottom"), at("pad_right")};
  return p;
}

Result<Problem> product_problem(const dsl::Workload& workload) {
  const dsl::Compute& compute = workload.compute;
  const Tag plain = workload.op == "batch_matmul" ? Tag::abc : Tag::ab;
  const auto of = [&](const std::string& name) {
    return operand(compute, name, compute.shape_of(name), plain);
  };
  Problem p;
  p.is_product = true;
  TW_TRY(p.src, of("a"));
  TW_TRY(p.weights, of("b"));
  TW_TRY(p.dst, of(compute.outputs[0]));
  TW_TRY(p.scale, scale_of(compute));
  return p;
}

Result<Problem> problem_of(const dsl::Workload& workload) {
  static const std::vector<std::string> convolutions = {"conv2d", "qlinear_conv2d"};
  static const std::vector<std::string> products = {"batch_matmul", "dense", "qlinear_dense"};
  TW_RETURN_IF_ERROR(check_no_epilogue("onednn", workload));
  if (std::ranges::count(convolutions, workload.op)) return conv_problem(workload);
  if (std::ranges::count(products, workload.op)) return product_problem(workload);
  return fail(ErrorCode::Unsupported, fmt::format("[onednn] '{}': expected {} or {}", workload.op,
                                                  join(convolutions, ", "), join(products, ", ")));
}

/// The primitive and the layouts that it chose.
struct Chosen {
  dnnl::primitive primitive;
  memory::desc src, weights, dst;
  std::string implementation;
};

template <typename Primitive, typename Description>
Chosen chosen(const Description& pd) {
  return {Primitive(pd), pd.src_desc(), pd.weights_desc(), pd.dst_desc(), pd.impl_info_str()};
}

/// Returns the mask of the dimensions of the weights along which scales differ.
int scaled_dimensions(const Problem& p) {
  if (p.is_product) return 1 << (p.weights.dims.size() - 1);
  const bool is_grouped = p.weights.dims.size() == 5;
  return is_grouped ? 1 << 0 | 1 << 1 : 1 << 0;
}

Chosen choose(const Problem& p, const memory::desc& src, const memory::desc& dst) {
  dnnl::primitive_attr attributes;
  if (p.scale) attributes.set_scales_mask(DNNL_ARG_WEIGHTS, scaled_dimensions(p));
  if (p.is_product)
    return chosen<dnnl::matmul>(
        dnnl::matmul::primitive_desc(engine(), src, p.weights.free(), dst, attributes));
  return chosen<dnnl::convolution_forward>(dnnl::convolution_forward::primitive_desc(
      engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_auto, src,
      p.weights.free(), dst, p.strides, p.dilations, p.pad_before, p.pad_after, attributes));
}

class OneDnn : public Contender {
 public:
  OneDnn(Problem problem, Chosen with, const Setup& setup, double empty_call_ns)
      : problem_(std::move(problem)),
        shape_(setup.workload->compute.shape_of(problem_.dst.name)),
        dtype_(setup.workload->compute.type_of(problem_.dst.name)),
        chosen_(std::move(with)),
        stream_(engine()),
        cache_(setup.cache),
        empty_call_ns_(empty_call_ns),
        copies_(copies_of(bytes_of(chosen_.weights), setup)) {
    src_data_.emplace_back(bytes_of(chosen_.src));
    dst_data_.emplace_back(bytes_of(chosen_.dst));
    src_ = memory(chosen_.src, engine(), src_data_[0].data());
    dst_ = memory(chosen_.dst, engine(), dst_data_[0].data());
    reorder_in(problem_.src, *setup.inputs, src_);
    const int64_t weight_bytes = bytes_of(chosen_.weights);
    weight_data_.emplace_back(weight_bytes);
    weights_ = memory(chosen_.weights, engine(), weight_data_[0].data());
    reorder_in(problem_.weights, *setup.inputs, weights_);
    while (static_cast<int64_t>(weight_data_.size()) < copies_) {
      weight_data_.emplace_back(weight_bytes);
      weight_data_.back().copy_from(weight_data_[0], weight_bytes);
    }
    arguments_ = {{DNNL_ARG_SRC, src_}, {DNNL_ARG_WEIGHTS, weights_}, {DNNL_ARG_DST, dst_}};
    if (problem_.scale) {
      scale_data_ = setup.inputs->at(problem_.scale->name).data;
      arguments_.emplace(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS,
                         memory(problem_.scale->logical(), engine(), scale_data_.data()));
    }
  }

  void prepare_call() override {
    if (cache_ != CacheState::Network) return;
    const auto bytes = [](const Memory& data, const memory::desc& desc) {
      return std::vector<Bytes>{{data.data(), desc.get_size()}};
    };
    enter_network_state({bytes(src_data_[0], chosen_.src), bytes(weight_data_[0], chosen_.weights),
                         bytes(dst_data_[0], chosen_.dst)});
  }

  Status run(int64_t call) override {
    submit(call);
    stream_.wait();
    return {};
  }

  /// Submits all calls of a batch, then waits once for all of them, as programs use a queue.
  Result<int64_t> time_ns(int64_t first, int64_t calls, bool prepares,
                          const tuner::Clock& clock) override {
    if (prepares) return Contender::time_ns(first, calls, prepares, clock);
    const int64_t start = clock();
    for (int64_t call = first; call < first + calls; ++call) submit(call);
    stream_.wait();
    return clock() - start;
  }
  double empty_call_ns() const override { return empty_call_ns_; }

  Result<dsl::Arrays> outputs() override {
    TW_TRY(dsl::Array array, dsl::Array::make(dtype_, shape_));
    memory logical(problem_.dst.logical(), engine(), array.data.data());
    dnnl::reorder(dst_, logical).execute(stream_, dst_, logical);
    stream_.wait();
    dsl::Arrays arrays;
    arrays[problem_.dst.name] = std::move(array);
    return arrays;
  }

  std::string description() const override {
    return fmt::format("{} {} {} {}", chosen_.implementation, layout_text(chosen_.src),
                       layout_text(chosen_.weights), layout_text(chosen_.dst));
  }

 private:
  void submit(int64_t call) {
    if (copies_ > 1)
      weights_.set_data_handle(weight_data_[static_cast<size_t>(call % copies_)].data());
    chosen_.primitive.execute(stream_, arguments_);
  }

  static int64_t bytes_of(const memory::desc& desc) {
    return static_cast<int64_t>(desc.get_size());
  }

  void reorder_in(const Operand& operand, const dsl::Arrays& inputs, memory& to) {
    const dsl::Array& array = inputs.at(operand.name);
    memory logical(operand.logical(), engine(), const_cast<std::byte*>(array.data.data()));
    dnnl::reorder(logical, to).execute(stream_, logical, to);
    stream_.wait();
  }

  Problem problem_;
  /// Shape of the output, with a dimension for groups if there are groups.
  std::vector<int64_t> shape_;
  DType dtype_;  ///< type of the output
  Chosen chosen_;
  dnnl::stream stream_;
  CacheState cache_;
  double empty_call_ns_;
  int64_t copies_;
  std::vector<Memory> src_data_, dst_data_, weight_data_;
  std::vector<std::byte> scale_data_;
  memory src_, weights_, dst_;
  std::unordered_map<int, memory> arguments_;
};

/// Returns the time of a call that multiplies two numbers, in ns: the mean time of a call in the
/// fastest of several batches.
double measured_empty_call_ns() {
  constexpr int batches = 20, calls = 100;
  float numbers[3] = {1, 1, 1};
  const memory::desc one({1, 1}, Type::f32, Tag::ab);
  const dnnl::matmul product(dnnl::matmul::primitive_desc(engine(), one, one, one));
  dnnl::stream stream(engine());
  const std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, {one, engine(), &numbers[0]}},
      {DNNL_ARG_WEIGHTS, {one, engine(), &numbers[1]}},
      {DNNL_ARG_DST, {one, engine(), &numbers[2]}}};
  double least_ns = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < batches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call) product.execute(stream, arguments);
    stream.wait();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    least_ns = std::min(least_ns, taken.count() / calls);
  }
  return least_ns;
}

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
/// Binds each OpenMP thread to the core of that thread of our pool that has the same index. OpenMP
/// keeps its threads between parallel regions, so they stay bound. The calling thread is bound only
/// while it is timed (PinnedHere).
Status use_threads(int threads) {
  const std::vector<int> cores = allowed_cores();
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  if (static_cast<size_t>(threads) > cores.size()) return {};
#pragma omp parallel num_threads(threads)
  {
    const int thread = omp_get_thread_num();
    if (thread > 0) pin_to(cores[static_cast<size_t>(thread)]);
  }
  return {};
}
#else
/// Starts the queue and its threads, and returns the number of threads. The threads are bound to
/// the cores to which the calling thread is bound, and TBB starts as many threads as there are such
/// cores. If one thread is asked for, it gets the last core, because the caller submits calls from
/// the first core.
int start_threads(int threads) {
  // The package does not register its driver with the loader of OpenCL.
  setenv("OCL_ICD_FILENAMES", TW_ONEDNN_DRIVER, 0);
  const size_t cores = allowed_cores().size(), count = static_cast<size_t>(threads);
  const PinnedHere pinned(count < cores ? cores - count : 0, count);
  measured_empty_call_ns();
  return threads;
}

Status use_threads(int threads) {
  static const int started = start_threads(threads);
  if (threads == started) return {};
  return fail(ErrorCode::Usage,
              fmt::format("[onednn] {} threads after {}: this build of oneDNN keeps the number of "
                          "threads with which it starts: give one number a run",
                          threads, started));
}
#endif

Result<std::vector<std::unique_ptr<Contender>>> make_variants(const std::string&,
                                                              const Setup& setup) {
  TW_TRY(const Problem problem, problem_of(*setup.workload));
  TW_RETURN_IF_ERROR(use_threads(setup.threads));
  static const double empty_call_ns = measured_empty_call_ns();
  std::vector<std::unique_ptr<Contender>> variants;
  std::optional<Chosen> any;
  std::string refusal;
  const Tag plain = problem.is_product ? problem.src.plain : Tag::nhwc;
  for (const Tag tag : {Tag::any, plain}) {
    try {
      Chosen one = choose(problem, problem.src.with(tag), problem.dst.with(tag));
      if (tag == plain && any && any->src == one.src && any->dst == one.dst) continue;
      if (tag == Tag::any) any = one;
      variants.push_back(std::make_unique<OneDnn>(problem, std::move(one), setup, empty_call_ns));
    } catch (const dnnl::error& error) {
      refusal = error.what();
    }
  }
  if (variants.empty())
    return fail(ErrorCode::Unsupported, fmt::format("[onednn] no primitive: {}", refusal));
  return variants;
}

/// Applies our limit on instruction sets to oneDNN, unless oneDNN's own environment variable sets a
/// limit. oneDNN accepts a limit only before its first primitive.
Status limit_isa() {
  static const std::map<std::string, dnnl::cpu_isa> ours = {
      {"sse41", dnnl::cpu_isa::sse41},
      {"avx", dnnl::cpu_isa::avx},
      {"avx2", dnnl::cpu_isa::avx2},
      {"avx512", dnnl::cpu_isa::avx512_core},
      {"avx512_vnni", dnnl::cpu_isa::avx512_core_vnni},
      {"avx512_bf16", dnnl::cpu_isa::avx512_core_bf16},
      {"avx512_fp16", dnnl::cpu_isa::avx512_core_fp16},
      {"amx", dnnl::cpu_isa::avx512_core_amx}};
  const auto limit = max_isa();
  if (!limit || std::getenv("ONEDNN_MAX_CPU_ISA")) return {};
  if (dnnl::set_max_cpu_isa(ours.at(*limit)) == dnnl::status::success) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[onednn] it cannot be limited to {} as {} asks: set ONEDNN_MAX_CPU_ISA",
                          *limit, max_isa_variable));
}

Result<std::vector<std::unique_ptr<Contender>>> make_limited(const std::string& item,
                                                             const Setup& setup) {
  static const Status limited = limit_isa();
  TW_RETURN_IF_ERROR(limited);
  try {
    return make_variants(item, setup);
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::Environment,
                fmt::format("[onednn] {}: oneDNN does not start on this machine; "
                            "ONEDNN_VERBOSE=all says why",
                            error.what()));
  }
}

}  // namespace

Peer onednn_peer() {
  const dnnl_version_t* version = dnnl_version();
  return {.name = "onednn",
          .version = fmt::format("{}.{}.{}", version->major, version->minor, version->patch),
          .make = make_limited,
          .keeps_threads = queues_calls};
}

}  // namespace tw::bench
