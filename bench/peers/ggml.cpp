// SPDX-License-Identifier: Apache-2.0
// GGML, the library of llama.cpp, as a peer: products with weights in its formats Q4_0 and Q8_0,
// which are also the formats of `dense_q4` and `dense_q8`. A product has a form with the weights in
// the layout of model files. If GGML can repack the weights for this processor, the product has a
// second form with repacked weights. GGML rounds the scales of blocks of the left factor to f16; in
// the definition of the operators they are f32.

#include <fmt/format.h>
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/integer.h"
#include "base/isa.h"
#include "bench/affinity.h"
#include "bench/peers/peer.h"

namespace tw::bench {
namespace {

// Largest relative error of a scale that is rounded to f16.
constexpr double error_of_scales = 1.0 / 2048;
// Size of a graph of one product, in nodes and leaves.
constexpr size_t graph_size = 4;

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* pointer) const {
    free(pointer);
  }
};
using Context = std::unique_ptr<ggml_context, Freed<ggml_free>>;
using Buffer = std::unique_ptr<ggml_backend_buffer, Freed<ggml_backend_buffer_free>>;
using Backend = std::unique_ptr<ggml_backend, Freed<ggml_backend_free>>;
using Threads = std::unique_ptr<ggml_threadpool, Freed<ggml_threadpool_free>>;

struct Product {
  int64_t m, n, k;
  ggml_type form;
  size_t bytes_of_block;  ///< bytes of the weights of a block, without their scale
};

Result<Product> product_of(const dsl::Workload& workload) {
  const bool is_q4 = workload.op == "dense_q4";
  if (!is_q4 && workload.op != "dense_q8")
    return fail(ErrorCode::Unsupported,
                fmt::format("[ggml] '{}': expected dense_q4 or dense_q8", workload.op));
  TW_RETURN_IF_ERROR(check_no_epilogue("ggml", workload));
  const auto at = [&](const char* name) { return workload.attributes.at(name); };
  const Product p{at("m"), at("n"), at("k"), is_q4 ? GGML_TYPE_Q4_0 : GGML_TYPE_Q8_0,
                  is_q4 ? size_t{16} : size_t{32}};
  if (workload.dtype != Float32 || p.k % ggml_blck_size(p.form) != 0)
    return fail(ErrorCode::Unsupported,
                fmt::format("[ggml] '{}': expected f32 and whole blocks of {} rows", workload.key(),
                            ggml_blck_size(p.form)));
  return p;
}

/// Returns the weights in the library's format, column by column. Each column is a sequence of
/// blocks; a block is its scale followed by its weights.
std::vector<std::byte> weights_of(const Product& p, const dsl::Arrays& inputs) {
  const std::vector<std::byte>&numbers = inputs.at("w").data, &scales = inputs.at("scale").data;
  const size_t n = static_cast<size_t>(p.n), blocks = numbers.size() / (p.bytes_of_block * n);
  std::vector<std::byte> weights;
  weights.reserve(numbers.size() + scales.size());
  for (size_t column = 0; column < n; ++column)
    for (size_t block = 0; block < blocks; ++block) {
      const std::byte* scale = &scales[2 * (block * n + column)];
      weights.insert(weights.end(), scale, scale + 2);
      for (size_t i = 0; i < p.bytes_of_block; ++i)
        weights.push_back(numbers[(block * p.bytes_of_block + i) * n + column]);
    }
  return weights;
}

/// Returns the library's type of memory for weights that it repacks; null if this build of the
/// library has none.
ggml_backend_buffer_type_t repacking_memory() {
  const ggml_backend_reg_t registry = ggml_backend_cpu_reg();
  const auto find = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(registry, "ggml_backend_dev_get_extra_bufts"));
  if (find == nullptr) return nullptr;
  ggml_backend_buffer_type_t* all = find(ggml_backend_reg_dev_get(registry, 0));
  for (; all != nullptr && *all != nullptr; ++all)
    if (std::string_view(ggml_backend_buft_name(*all)).find("REPACK") != std::string_view::npos)
      return *all;
  return nullptr;
}

size_t aligned(size_t bytes, size_t alignment) {
  return static_cast<size_t>(
      round_up(static_cast<int64_t>(bytes), static_cast<int64_t>(alignment)));
}

/// Returns a context for descriptions of tensors and graphs. It holds no data.
Context make_context(size_t bytes) {
  return Context(ggml_init({.mem_size = bytes, .mem_buffer = nullptr, .no_alloc = true}));
}

class Ggml final : public Contender {
 public:
  Ggml(const Product& p, ggml_backend_buffer_type_t type, const Setup& setup)
      : p_(p),
        output_(setup.workload->compute.outputs[0]),
        memory_(ggml_backend_buft_name(type)),
        threads_(make_threads(setup.threads)),
        backend_(ggml_backend_cpu_init()) {
    ggml_backend_cpu_set_n_threads(backend_.get(), setup.threads);
    ggml_backend_cpu_set_threadpool(backend_.get(), threads_.get());
    const std::vector<std::byte> bytes = weights_of(p, *setup.inputs);
    const auto copies = static_cast<size_t>(copies_of(static_cast<int64_t>(bytes.size()), setup));
    describe(copies);
    if (!is_supported(type) || !allocate()) return;
    for (ggml_tensor* weights : weights_)
      ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());
    const std::vector<std::byte>& left = setup.inputs->at("a").data;
    ggml_backend_tensor_set(left_, left.data(), 0, left.size());
    is_ready_ = true;
  }

  /// False if the library does not support these weights in this type of memory, or if the memory
  /// cannot be allocated.
  bool is_ready() const { return is_ready_; }

  /// Plans and computes a graph, as llama.cpp does for each token.
  Status run(int64_t call) override {
    last_ = static_cast<size_t>(call) % graphs_.size();
    const ggml_status status = ggml_backend_graph_compute(backend_.get(), graphs_[last_]);
    if (status == GGML_STATUS_SUCCESS) return {};
    return fail(ErrorCode::Internal,
                fmt::format("[ggml] the product: {}", ggml_status_to_string(status)));
  }

  /// Times calls, then pauses the library's threads. Otherwise these would poll for the next call
  /// for a while. The next call wakes them.
  Result<int64_t> time_ns(int64_t first, int64_t calls, bool prepares,
                          const tuner::Clock& clock) override {
    auto time = Contender::time_ns(first, calls, prepares, clock);
    ggml_threadpool_pause(threads_.get());
    return time;
  }

  Result<dsl::Arrays> outputs() override {
    ggml_threadpool_pause(threads_.get());
    TW_TRY(dsl::Array array, dsl::Array::make(Float32, {p_.m, p_.n}));
    ggml_backend_tensor_get(results_[last_], array.data.data(), 0, array.data.size());
    return dsl::Arrays{{output_, std::move(array)}};
  }

  double own_rounding() const override { return error_of_scales; }
  std::string description() const override { return memory_; }

 private:
  /// Starts the library's threads. In builds without OpenMP they inherit the cores of the thread
  /// that starts them, so this thread is bound to as many cores meanwhile.
  static ggml_threadpool* make_threads(int threads) {
    const PinnedHere pinned(0, static_cast<size_t>(threads));
    ggml_threadpool_params params = ggml_threadpool_params_default(threads);
    return ggml_threadpool_new(&params);
  }

  void describe(size_t copies) {
    const size_t tensor = ggml_tensor_overhead();
    weights_context_ = make_context(copies * tensor);
    context_ = make_context((copies + 1) * tensor +
                            copies * ggml_graph_overhead_custom(graph_size, false));
    left_ = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, p_.k, p_.m);
    for (size_t i = 0; i < copies; ++i) {
      weights_.push_back(ggml_new_tensor_2d(weights_context_.get(), p_.form, p_.k, p_.n));
      results_.push_back(ggml_mul_mat(context_.get(), weights_[i], left_));
      graphs_.push_back(ggml_new_graph_custom(context_.get(), graph_size, false));
      ggml_build_forward_expand(graphs_[i], results_[i]);
    }
  }

  /// True if the library supports the product with weights in this type of memory. Repacking
  /// supports few types of weights, and only certain multiples of rows.
  bool is_supported(ggml_backend_buffer_type_t type) {
    weights_memory_.reset(ggml_backend_alloc_ctx_tensors_from_buft(weights_context_.get(), type));
    return weights_memory_ && ggml_backend_supports_op(backend_.get(), results_[0]);
  }

  /// Allocates the left factor and the result, which all copies of the weights share.
  bool allocate() {
    const size_t left = aligned(ggml_nbytes(left_), ggml_backend_get_alignment(backend_.get()));
    data_.reset(ggml_backend_alloc_buffer(backend_.get(), left + ggml_nbytes(results_[0])));
    if (!data_) return false;
    char* const base = static_cast<char*>(ggml_backend_buffer_get_base(data_.get()));
    ggml_backend_tensor_alloc(data_.get(), left_, base);
    for (ggml_tensor* result : results_)
      ggml_backend_tensor_alloc(data_.get(), result, base + left);
    return true;
  }

  const Product p_;
  const std::string output_, memory_;
  Threads threads_;
  Backend backend_;
  Context weights_context_, context_;
  Buffer weights_memory_, data_;
  ggml_tensor* left_ = nullptr;
  /// One for each copy of the weights, as in graphs_.
  std::vector<ggml_tensor*> weights_, results_;
  std::vector<ggml_cgraph*> graphs_;
  size_t last_ = 0;
  bool is_ready_ = false;
};

Result<std::vector<std::unique_ptr<Contender>>> make_forms(const std::string&, const Setup& setup) {
  TW_TRY(const Product product, product_of(*setup.workload));
  if (max_isa())
    return fail(ErrorCode::Environment,
                fmt::format("[ggml] unset {}: GGML uses the whole processor", max_isa_variable));
  if (setup.cache == CacheState::Network)
    return fail(ErrorCode::Unsupported, "[ggml] is compared in the states hot and cold only");
  std::vector<std::unique_ptr<Contender>> forms;
  for (const ggml_backend_buffer_type_t type :
       {ggml_backend_cpu_buffer_type(), repacking_memory()}) {
    if (type == nullptr) continue;
    auto form = std::make_unique<Ggml>(product, type, setup);
    if (form->is_ready()) forms.push_back(std::move(form));
  }
  if (forms.empty()) return fail(ErrorCode::Environment, "[ggml] there is no memory for a product");
  return forms;
}

}  // namespace

Peer ggml_peer() { return {.name = "ggml", .version = ggml_version(), .make = make_forms}; }

}  // namespace tw::bench
