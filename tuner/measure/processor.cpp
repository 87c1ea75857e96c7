// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/artifact.h"
#include "runtime/kernel.h"
#include "tuner/measure/cache_lines.h"
#include "tuner/measure/executor.h"
#include "tuner/measure/peak.h"
#include "tuner/measure/verify.h"
#include "tuner/processes/sandbox.h"

namespace tw::tuner {
namespace {

class CpuKernel final : public LoadedKernel {
 public:
  CpuKernel(runtime::Kernel kernel, const ReferencedWorkload& workload, Threads& threads,
            PackedInputs& packed, CacheSweep& sweep, const Clock& clock)
      : kernel_(std::move(kernel)),
        workload_(workload),
        threads_(threads),
        packed_(packed),
        sweep_(sweep),
        clock_(clock) {}

  Verdict verify() override {
    return tuner::verify(kernel_, workload_.workload, workload_.reference, packed_, threads_.pool(),
                         threads_.count);
  }

  Result<Timer> timer() override {
    const dsl::Arrays& inputs = workload_.reference.normal.inputs;
    const dsl::CacheState state = workload_.workload.state;
    const bool is_hot = state == dsl::CacheState::Hot;
    TW_TRY(buffers_,
           KernelBuffers::make(kernel_, workload_.workload, inputs,
                               {.align = Align::Begin, .alignment = 64, .huge_pages = true},
                               keeps_arrays(workload_.workload) ? nullptr : &packed_,
                               is_hot ? SharedInputs::All : SharedInputs::Constants));
    TW_RETURN_IF_ERROR(buffers_->prepare(kernel_, Poison::First, threads_.pool(), threads_.count));
    pointers_ = buffers_->pointers();
    TW_TRY(conversions_, Conversions::of(kernel_, workload_.workload, inputs, *buffers_));
    // The kernel ran when it was verified, so a call that fails now is out of memory.
    const auto call = [this] {
      const Status called = conversions_.call(kernel_, pointers_, threads_.pool(), threads_.count);
      if (!called) exit_with(FaultKind::Resource, called.error().message);
    };
    if (is_hot) return timed_by(clock_, call);
    TW_TRY(roles_, roles_of(kernel_, workload_.workload, *buffers_));
    const auto enter = [this, state] {
      sweep_.enter(state, roles_, threads_.pool(), threads_.count);
    };
    return timed_singly(clock_, enter, call);
  }

  Verdict check_after_timing() override {
    const auto outputs = buffers_->outputs(kernel_);
    if (!outputs) return {db::TrialStatus::Oob, outputs.error().message, 0};
    return compare(workload_.reference, Pass::Normal, *outputs);
  }

 private:
  runtime::Kernel kernel_;
  const ReferencedWorkload& workload_;
  Threads& threads_;
  PackedInputs& packed_;
  CacheSweep& sweep_;
  Clock clock_;
  std::optional<KernelBuffers> buffers_;  ///< buffers that the timed calls use
  std::vector<void*> pointers_;
  Conversions conversions_;  ///< conversions of layouts that are part of a call
  Roles roles_;              ///< roles of the buffers in a network
};

class Processor final : public Executor {
 public:
  Processor(Threads& threads, Clock clock) : threads_(threads), clock_(std::move(clock)) {}

  Result<std::unique_ptr<LoadedKernel>> load(runtime::Artifact artifact,
                                             const ReferencedWorkload& workload) override {
    TW_TRY(runtime::Kernel kernel, runtime::Kernel::load(std::move(artifact)));
    return std::make_unique<CpuKernel>(std::move(kernel), workload, threads_, packed_, sweep_,
                                       clock_);
  }

  Result<PlainCall> plain_call(runtime::Artifact artifact, const dsl::Workload&) override {
    TW_TRY(runtime::Kernel kernel, runtime::Kernel::load(std::move(artifact)));
    return tuner::plain_call(std::move(kernel), threads_.pool());
  }

  Target target() const override { return host_target(); }

  void forget_inputs() override { packed_.clear(); }

  Sampling fitted(Sampling options) const override { return options; }

  Watch& watch() override {
    (void)gauge();
    return *watch_;
  }

  Result<double> f32_peak_gflops() override {
    TW_TRY(const Peak peak, measure_f32_peak(threads_.count, clock_));
    // The gauge may have read a higher speed earlier.
    return std::max(peak.gflops, gauge().undisturbed());
  }

  double fastest_gflops() const override { return gauge_ ? gauge_->undisturbed() : 0; }

  Result<runtime::DeviceFacts> facts() override {
    return fail(ErrorCode::Usage, "[worker] this one was started for the processor");
  }

 private:
  Gauge& gauge() {
    if (!gauge_ || gauge_->threads() != threads_.count) {
      gauge_ = std::make_unique<Gauge>(threads_.pool(), threads_.count, clock_);
      watch_ = watch_processor(*gauge_, clock_);
    }
    return *gauge_;
  }

  Threads& threads_;
  Clock clock_;
  PackedInputs packed_;
  CacheSweep sweep_ = CacheSweep(host_target().machine, clock_);
  std::unique_ptr<Gauge> gauge_;
  std::unique_ptr<Watch> watch_;  ///< the watch that reads gauge_
};

}  // namespace

std::unique_ptr<Executor> processor(Threads& threads, const Clock& clock) {
  return std::make_unique<Processor>(threads, clock);
}

}  // namespace tw::tuner
