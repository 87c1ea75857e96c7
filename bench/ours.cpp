// SPDX-License-Identifier: Apache-2.0
#include "bench/ours.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/databases/memory.h"
#include "runtime/kernel.h"
#include "tuner/workers/device.h"

namespace tw::bench {

namespace {

class Ours : public Contender {
 public:
  Ours(runtime::Kernel kernel, const Setup& setup, Interface interface,
       std::shared_ptr<runtime::ThreadPool> pool)
      : kernel_(std::move(kernel)),
        buffers_(runtime::call_buffers(kernel_.info())),
        setup_(setup),
        pool_(std::move(pool)) {
    const dsl::Compute& compute = setup.workload->compute;
    const size_t arguments = kernel_.info().arguments.size();
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const dsl::Input* input = compute.find_input(buffers_[i].name);
      const bool constant = i >= arguments || (input && input->constant);
      constant_.push_back(constant);
      if (constant && !buffers_[i].only_prepares)
        constant_bytes_ += runtime::storage_bytes(buffers_[i]);
      converted_.push_back(interface == Interface::Logical && !constant &&
                           !buffers_[i].pack.empty());
    }
  }

  /// Packs the inputs, runs the kernel's preparation, and makes the copies of constant arrays that
  /// the setup asks for.
  Status prepare() {
    const size_t arguments = kernel_.info().arguments.size();
    copies_ = copies_of(constant_bytes_, setup_);
    for (size_t i = 0; i < buffers_.size(); ++i) {
      storage_.emplace_back().emplace_back(runtime::storage_bytes(buffers_[i]));
      if (i < arguments && !buffers_[i].is_output) TW_RETURN_IF_ERROR(pack(i, storage_[i][0]));
      pointers_.push_back(storage_[i][0].data());
      logical_.emplace_back(converted_[i] ? runtime::logical_bytes(buffers_[i]) : 0);
    }
    TW_RETURN_IF_ERROR(kernel_.prepare(pointers_, *pool_, setup_.threads));
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const int64_t bytes = runtime::storage_bytes(buffers_[i]);
      for (int64_t copy = 1; constant_[i] && copy < copies_; ++copy)
        storage_[i].emplace_back(bytes).copy_from(storage_[i][0], bytes);
    }
    return {};
  }

  void prepare_call() override {
    if (setup_.cache == CacheState::Network) enter_network_state(arrays());
  }

  Status run(int64_t call) override {
    const size_t copy = static_cast<size_t>(call % copies_);
    for (size_t i = 0; i < pointers_.size(); ++i) {
      if (constant_[i] && copies_ > 1) pointers_[i] = storage_[i][copy].data();
      if (converted_[i] && !buffers_[i].is_output) TW_RETURN_IF_ERROR(pack(i, storage_[i][0]));
    }
    TW_RETURN_IF_ERROR(kernel_.run(pointers_, *pool_, setup_.threads));
    for (size_t i = 0; i < pointers_.size(); ++i)
      if (converted_[i] && buffers_[i].is_output) TW_RETURN_IF_ERROR(unpack(i, logical_[i].data()));
    return {};
  }

  Result<dsl::Arrays> outputs() override {
    dsl::Arrays arrays;
    const auto& arguments = kernel_.info().arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].is_output) continue;
      TW_TRY(dsl::Array array, dsl::Array::make(arguments[i].dtype, arguments[i].shape));
      TW_RETURN_IF_ERROR(unpack(i, array.data.data()));
      arrays[arguments[i].name] = std::move(array);
    }
    return arrays;
  }

  std::string description() const override { return layouts_text(kernel_.info()); }

 private:
  Arrays arrays() const {
    Arrays arrays;
    for (size_t i = 0; i < pointers_.size(); ++i) {
      const runtime::ArgumentInfo& argument = buffers_[i];
      if (argument.only_prepares) continue;
      auto& kind = argument.is_output ? arrays.outputs
                   : constant_[i]     ? arrays.weights
                                      : arrays.activations;
      kind.emplace_back(storage_[i][0].data(),
                        static_cast<size_t>(runtime::storage_bytes(argument)));
    }
    return arrays;
  }
  Status pack(size_t i, const Memory& storage) const {
    const dsl::Array& array = setup_.inputs->at(kernel_.info().arguments[i].name);
    return kernel_.pack(static_cast<int>(i), array.data.data(), storage.data(), *pool_,
                        setup_.threads);
  }
  Status unpack(size_t i, void* logical) const {
    return kernel_.unpack(static_cast<int>(i), storage_[i][0].data(), logical, *pool_,
                          setup_.threads);
  }

  runtime::Kernel kernel_;
  std::vector<runtime::ArgumentInfo> buffers_;  ///< the arguments, then the prepared buffers
  Setup setup_;
  std::shared_ptr<runtime::ThreadPool> pool_;
  int64_t constant_bytes_ = 0, copies_ = 1;
  // One element for each buffer.
  std::vector<bool> constant_, converted_;
  std::vector<std::vector<Memory>> storage_;
  std::vector<Memory> logical_;
  std::vector<void*> pointers_;
};

/// Returns the best record of the workload that was measured on this machine. Records of other
/// machines are ignored, because their schedules may be slow here.
Result<std::optional<db::Record>> known_here(db::Store& store, const dsl::Workload& workload,
                                             const Target& target, int threads) {
  TW_TRY(auto known, tuner::best_known(store, workload, target, threads));
  if (known && !tuner::is_of_device(*known, target)) known.reset();
  return known;
}

}  // namespace

Result<std::unique_ptr<Contender>> make_ours(const runtime::Artifact& artifact, const Setup& setup,
                                             Interface interface,
                                             std::shared_ptr<runtime::ThreadPool> pool) {
  for (const runtime::ArgumentInfo& argument : artifact.info.arguments)
    if (!argument.layout.empty() && argument.pack.empty())
      return fail(ErrorCode::Invalid,
                  fmt::format("[bench] the kernel has the layout {} of '{}' without its packing "
                              "kernel: compile it with packs",
                              argument.layout, argument.name));
  TW_TRY(runtime::Kernel kernel, runtime::Kernel::load(artifact));
  auto ours = std::make_unique<Ours>(std::move(kernel), setup, interface, std::move(pool));
  TW_RETURN_IF_ERROR(ours->prepare());
  return ours;
}

Result<Found> build_kernel(const dsl::Workload& workload, const Target& target,
                           const std::string& schedule, int threads,
                           const tuner::Environment& environment) {
  TW_TRY(runtime::Artifact artifact,
         tuner::build_schedule(workload, schedule, target, threads, false, environment));
  return Found{std::move(artifact), schedule, false};
}

Result<Found> find_kernel(const dsl::Workload& workload, const Target& target,
                          const tuner::TuneOptions& options, Search search, db::Store& store,
                          const tuner::Environment& environment,
                          const tuner::OnProgress& on_progress) {
  TW_TRY(auto known, known_here(store, workload, target, options.threads));
  if (!known && search == Search::No && workload.state != dsl::CacheState::Hot) {
    dsl::Workload hot = workload;
    hot.state = dsl::CacheState::Hot;
    TW_TRY(known, known_here(store, hot, target, options.threads));
  }
  if (!known && search == Search::No)
    return fail(ErrorCode::NoCandidate,
                fmt::format("[bench] the database has no kernel of '{}' for {} threads of this "
                            "machine: tune it first, as --tune missing does where there is that "
                            "flag",
                            workload.text(), options.threads));
  if (known && search != Search::More)
    return build_kernel(workload, target, known->schedule, options.threads, environment);
  TW_TRY(tuner::Tuned tuned,
         tuner::tune(workload, target, options, store, environment, on_progress));
  return Found{std::move(tuned.artifact), tuned.best.schedule, true};
}

}  // namespace tw::bench
