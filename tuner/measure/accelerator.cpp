// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "codegen/backend.h"
#include "runtime/artifact.h"
#include "runtime/devices/device_kernel.h"
#include "tuner/measure/device_peak.h"
#include "tuner/measure/device_runs.h"
#include "tuner/measure/executor.h"
#include "tuner/processes/sandbox.h"

namespace tw::tuner {
namespace {

using runtime::Device;

class LoadedDeviceKernel final : public LoadedKernel {
 public:
  LoadedDeviceKernel(std::shared_ptr<Device> device, runtime::DeviceKernel kernel,
                     const ReferencedWorkload& workload, DeviceArrays& kept)
      : device_(std::move(device)), kernel_(std::move(kernel)), workload_(workload), kept_(kept) {}

  Verdict verify() override {
    return seen(tuner::verify(device_, kernel_, workload_.workload, workload_.reference, kept_));
  }

  Result<Timer> timer() override {
    TW_TRY(buffers_, DeviceBuffers::make(device_, kernel_, workload_.workload,
                                         workload_.reference.normal.inputs, kept_));
    TW_RETURN_IF_ERROR(buffers_->poison(Poison::Second));
    return timed_on(device_, buffers_->launches());
  }

  Verdict check_after_timing() override {
    return seen(buffers_->compare(workload_.reference, Pass::Normal, kept_));
  }

 private:
  /// Returns `verdict`. If it is not Ok, drops the cached arrays first: the kernel may have changed
  /// them, and they are the inputs of the next kernels.
  Verdict seen(Verdict verdict) {
    if (verdict.status != db::TrialStatus::Ok) kept_.clear();
    return verdict;
  }

  std::shared_ptr<Device> device_;
  runtime::DeviceKernel kernel_;
  const ReferencedWorkload& workload_;
  DeviceArrays& kept_;
  std::optional<DeviceBuffers> buffers_;  ///< buffers that the timed calls use
};

class Accelerator final : public Executor {
 public:
  Accelerator(Target target, int index, const Clock& clock)
      : target_(std::move(target)), index_(index), clock_(clock) {}

  Result<std::unique_ptr<LoadedKernel>> load(runtime::Artifact artifact,
                                             const ReferencedWorkload& workload) override {
    TW_TRY(const auto device, opened());
    TW_TRY(runtime::DeviceKernel kernel, loaded(std::move(artifact), device));
    return std::make_unique<LoadedDeviceKernel>(device, std::move(kernel), workload, kept_);
  }

  Result<PlainCall> plain_call(runtime::Artifact artifact, const dsl::Workload& workload) override {
    TW_TRY(const auto device, opened());
    TW_TRY(const runtime::DeviceKernel kernel, loaded(std::move(artifact), device));
    return [device, kernel, &workload](const dsl::Arrays& inputs) {
      return call_once(device, kernel, workload, inputs);
    };
  }

  Target target() const override { return target_; }

  void forget_inputs() override { kept_.clear(); }

  Sampling fitted(Sampling options) const override { return fit_to_device(options); }

  /// Returns a watch that never objects. Timings on a GPU need no other watch, because its clock
  /// counts only the time of our work, whatever else runs on the processor. If an OpenCL device is
  /// the processor itself, its driver owns the threads, so no watch can tell which thread was
  /// disturbed.
  Watch& watch() override { return watch_; }

  Result<double> f32_peak_gflops() override {
    TW_TRY(const auto device, opened());
    auto gflops = measure_f32_peak(*device);
    if (!gflops && device->lost()) exit_with(FaultKind::Crash, gflops.error().message);
    return gflops;
  }

  Result<runtime::DeviceFacts> facts() override {
    TW_TRY(const auto device, opened());
    return device->facts();
  }

 private:
  static Result<runtime::DeviceKernel> loaded(runtime::Artifact artifact,
                                              const std::shared_ptr<Device>& device) {
    auto kernel = runtime::DeviceKernel::load(std::move(artifact), device);
    if (!kernel && device->lost()) exit_with(FaultKind::Crash, kernel.error().message);
    return kernel;
  }

  Result<std::shared_ptr<Device>> opened() {
    if (!device_) {
      const runtime::DeviceOptions options{.index = index_};
      TW_TRY(device_, codegen::backend_of(target_).open(options));
    }
    return device_;
  }

  const Target target_;
  const int index_;
  const Clock& clock_;
  std::shared_ptr<Device> device_;
  DeviceArrays kept_;
  NoWatch watch_;
};

}  // namespace

std::unique_ptr<Executor> accelerator(const Target& target, int index, const Clock& clock) {
  return std::make_unique<Accelerator>(target, index, clock);
}

}  // namespace tw::tuner
