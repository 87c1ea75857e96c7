// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "runtime/artifact.h"
#include "runtime/device_kernel.h"
#include "tuner/device_peak.h"
#include "tuner/device_runs.h"
#include "tuner/machine.h"
#include "tuner/sandbox.h"

namespace tw::tuner {
namespace {

using runtime::Device;

class DeviceSubject final : public Subject {
 public:
  DeviceSubject(std::shared_ptr<Device> device, runtime::DeviceKernel kernel, const Task& task,
                DeviceInputs& kept)
      : device_(std::move(device)), kernel_(std::move(kernel)), task_(task), kept_(kept) {}

  Verdict verify() override {
    return seen(tuner::verify(device_, kernel_, task_.workload, task_.reference, kept_));
  }

  Result<Timer> timer() override {
    TW_TRY(buffers_, DeviceBuffers::make(device_, kernel_, task_.workload,
                                         task_.reference.normal.inputs, kept_));
    TW_RETURN_IF_ERROR(buffers_->poison(Poison::Second));
    return timed_on(device_, buffers_->launches());
  }

  Verdict left_behind() override {
    const Outputs outputs = buffers_->outputs();
    return seen(outputs ? compare(*outputs, task_.reference) : outputs.error());
  }

 private:
  /// A kernel that did wrong may have changed what the next ones are given.
  Verdict seen(Verdict verdict) {
    if (verdict.status != db::TrialStatus::Ok) kept_.clear();
    return verdict;
  }

  std::shared_ptr<Device> device_;
  runtime::DeviceKernel kernel_;
  const Task& task_;
  DeviceInputs& kept_;
  std::optional<DeviceBuffers> buffers_;  ///< of the timed calls
};

class Accelerator final : public Machine {
 public:
  Accelerator(Target target, int index, const Clock& clock)
      : target_(std::move(target)), index_(index), clock_(clock) {}

  Result<std::unique_ptr<Subject>> load(const std::string& path, const Task& task) override {
    TW_TRY(const auto device, opened());
    TW_TRY(runtime::DeviceKernel kernel, loaded(path, device));
    return std::make_unique<DeviceSubject>(device, std::move(kernel), task, kept_);
  }

  Result<PlainCall> plain_call(const std::string& path, const dsl::Workload& workload) override {
    TW_TRY(const auto device, opened());
    TW_TRY(const runtime::DeviceKernel kernel, loaded(path, device));
    return [device, kernel, &workload](const dsl::Arrays& inputs) {
      return call_once(device, kernel, workload, inputs);
    };
  }

  void forget_inputs() override { kept_.clear(); }

  Sampling fitted(Sampling options) const override { return fit_to_device(options); }

  /// A GPU's clock counts what it ran of ours, whatever the processor does meanwhile. The threads
  /// of a device that is the processor are its driver's: nothing tells which of them was disturbed.
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
  Result<runtime::DeviceKernel> loaded(const std::string& path,
                                       const std::shared_ptr<Device>& device) const {
    TW_TRY(runtime::Artifact artifact, runtime::read_artifact(path, runtime::Trust::Own, target_));
    auto kernel = runtime::DeviceKernel::load(std::move(artifact), device);
    if (!kernel && device->lost()) exit_with(FaultKind::Crash, kernel.error().message);
    return kernel;
  }

  Result<std::shared_ptr<Device>> opened() {
    if (!device_) {
      const runtime::DeviceOptions options{.index = index_};
      TW_TRY(device_, target_.architecture == Architecture::Cuda
                          ? runtime::open_cuda_device(options)
                          : runtime::open_opencl_device(options));
    }
    return device_;
  }

  const Target target_;
  const int index_;
  const Clock& clock_;
  std::shared_ptr<Device> device_;
  DeviceInputs kept_;
  NoWatch watch_;
};

}  // namespace

std::unique_ptr<Machine> accelerator(const Target& target, int index, const Clock& clock) {
  return std::make_unique<Accelerator>(target, index, clock);
}

}  // namespace tw::tuner
