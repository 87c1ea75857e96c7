// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs kernels on a device. Kernels are verified as on the processor (verify.h), as far as is
// possible in the memory of a device, and are timed by the device's clock.
//
// A device has no guard pages. Instead, a guard zone with a pattern lies behind each buffer. After
// each run the pattern must be intact, and the inputs must still have their checksums; otherwise
// the kernel wrote to memory that it must not write. A kernel that reads a guard zone is found
// because the pattern differs between runs, so that the kernel's outputs differ too. If the device
// is lost, the worker exits (exit_with), and the next worker opens the device again. Not
// thread-safe.

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "dsl/layout.h"
#include "dsl/workload.h"
#include "runtime/device.h"
#include "runtime/devices/device_kernel.h"
#include "tuner/measure/device_comparison.h"
#include "tuner/measure/sampling.h"
#include "tuner/measure/verdict.h"
#include "tuner/processes/guarded_buffer.h"

namespace tw::tuner {

/// A buffer on a device with a guard zone behind it.
class GuardedMemory {
 public:
  static Result<GuardedMemory> make(runtime::Device& device, int64_t bytes);

  runtime::DeviceAddress address() const { return buffer_.address(); }
  int64_t bytes() const { return buffer_.bytes() - guard_bytes; }

  Status write(const std::vector<std::byte>& data) const {
    return buffer_.write(data.data(), bytes());
  }
  Result<std::vector<std::byte>> read() const;
  /// The whole allocation, including the guard zone.
  const runtime::DeviceBuffer& buffer() const { return buffer_; }
  Status poison(Poison pattern) const;
  Status poison_guard(Poison pattern) const;
  /// True if the guard zone still holds the pattern.
  Result<bool> intact(Poison pattern) const;

  /// Size of the guard zone. It is larger than a row of tiles of the widest kernels, so that most
  /// wrong accesses stay inside of the zone. After an access beyond it the device can be lost.
  static constexpr int64_t guard_bytes = 64 << 10;

 private:
  runtime::DeviceBuffer buffer_;
};

/// Cache of inputs and expected outputs on a device, in the layouts that kernels ask for. It saves
/// copies over the bus, which take longer than most kernels. The least recently used arrays are
/// dropped first.
class DeviceArrays {
 public:
  struct Kept {
    GuardedMemory memory;
    uint64_t checksum;  ///< checksum of the contents that the array must keep
  };
  /// Returns a copy of `array` in `layout` on the device, from the cache if it is there.
  /// `layout_text` is the layout as text; the cache finds a copy by it and by the address of
  /// `array`. Call clear() when an array that was passed is destroyed, before the next get(), and
  /// after a kernel that may have changed a copy.
  Result<std::shared_ptr<const Kept>> get(runtime::Device& device, const dsl::Array& array,
                                          const dsl::Layout& layout,
                                          const std::string& layout_text);
  /// Returns the comparison kernels, which the first call loads on the device. Requires: all calls
  /// are for the same device.
  Result<std::shared_ptr<const DeviceComparison>> comparison(
      const std::shared_ptr<runtime::Device>& device);
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    const dsl::Array* array;
    std::string layout;
    std::shared_ptr<const Kept> kept;
  };
  std::list<Entry> entries_;  ///< sorted by their last use, the latest first
  std::shared_ptr<const DeviceComparison> comparison_;
};

/// All device memory of a kernel: its arguments, the buffers that its preparation computes, and its
/// scratch memory. The input arguments hold the inputs of one fill (reference.h).
class DeviceBuffers {
 public:
  static Result<DeviceBuffers> make(const std::shared_ptr<runtime::Device>& device,
                                    const runtime::DeviceKernel& kernel,
                                    const dsl::Workload& workload, const dsl::Arrays& inputs,
                                    DeviceArrays& kept);

  /// Fills the outputs, the scratch memory and all guard zones with the pattern.
  Status poison(Poison pattern);
  /// The launches that make up one call of the kernel.
  std::vector<runtime::Launch> launches() const;
  /// Returns the outputs of the latest call, converted to row-major arrays. The verdict is Oob if a
  /// call or the preparation wrote outside of its buffers. It is MutatesInput if a call wrote to an
  /// input or to a prepared buffer, or if the preparation wrote to an input. It is that of
  /// refusal() if the driver fails.
  Outputs outputs() const;
  /// Compares the outputs of the latest call with those of the reference. An output is copied to
  /// the processor only if the comparison on the device does not show that it is right.
  Verdict compare(const Reference& reference, Pass pass, DeviceArrays& kept) const;
  /// Returns the checksums of the outputs, in the order of the arguments. They leave out the
  /// padding of the layouts, which kernels need not write.
  Result<std::vector<uint64_t>> output_checksums() const;
  /// True if the outputs of the latest call have these checksums, which are output_checksums() of
  /// an earlier call. Gives the same verdicts as outputs() if there are no valid outputs.
  Repeated repeats(const std::vector<uint64_t>& checksums) const;

 private:
  DeviceBuffers(std::shared_ptr<runtime::Device> device, runtime::DeviceKernel kernel,
                std::shared_ptr<const DeviceComparison> comparison)
      : device_(std::move(device)),
        kernel_(std::move(kernel)),
        comparison_(std::move(comparison)) {}
  Result<uint64_t> checksum(const GuardedMemory& memory) const;
  Result<Verdict> trespasses() const;
  std::vector<runtime::DeviceAddress> addresses() const;
  Status prepare();
  Result<dsl::Array> unpacked(size_t argument) const;
  /// Returns the relative_error() of the output with index `argument`. It is computed on the device
  /// if possible. If the device's error is above `allowed`, or if `left_out` is given and the
  /// outputs are not equal, the processor computes the error. `overflows` and `left_out` are those
  /// of relative_error().
  Result<double> error_of(size_t argument, const dsl::Array& expected, double allowed,
                          bool overflows, const std::vector<bool>* left_out,
                          DeviceArrays& kept) const;

  struct Argument {
    dsl::Layout layout;
    GuardedMemory memory;
    std::shared_ptr<const DeviceArrays::Kept> input;  ///< the cached input; null for an output
  };
  std::shared_ptr<runtime::Device> device_;
  runtime::DeviceKernel kernel_;
  std::shared_ptr<const DeviceComparison> comparison_;
  struct Prepared {
    GuardedMemory memory;
    uint64_t checksum;  ///< checksum of the contents that the preparation computed
  };
  std::vector<Argument> arguments_;
  std::vector<Prepared> prepared_;
  Verdict preparation_;  ///< Oob or MutatesInput if the preparation wrote where it must not
  std::optional<GuardedMemory> scratch_;  ///< nullopt if the kernel needs no scratch memory
  Poison poison_ = Poison::First;
};

/// Verifies a kernel by the three runs on the device that judge() asks for (verdict.h). Inputs and
/// expected outputs are cached in `kept`.
Verdict verify(const std::shared_ptr<runtime::Device>& device, const runtime::DeviceKernel& kernel,
               const dsl::Workload& workload, const Reference& reference, DeviceArrays& kept);

/// Calls a kernel once and returns its outputs. Fails with Invalid if the kernel wrote outside of
/// its buffers or to an input, and with the errors of Device::launch(). If the device is lost while
/// the outputs are read, the process ends (refusal()).
Result<dsl::Arrays> call_once(const std::shared_ptr<runtime::Device>& device,
                              const runtime::DeviceKernel& kernel, const dsl::Workload& workload,
                              const dsl::Arrays& inputs);

/// Returns a timer that measures calls of a kernel by the device's clock. The launches in `call`
/// make up one call. A batch of calls is handed to the device in one piece, so that calls that are
/// shorter than the overhead of a launch can be timed too. If timing fails and `failed` is given,
/// the timer calls `failed` with the error and reports one second for each call, which ends the
/// sampling. If `failed` is empty, a failure ends the worker process.
Timer timed_on(std::shared_ptr<runtime::Device> device, std::vector<runtime::Launch> call,
               std::function<void(const Error&)> failed = {});

/// Adapts the options to the clock of a device. CUDA's clock ticks every 500 ns, and the clocks of
/// most OpenCL devices tick more often. A batch has at most 4096 calls: a call takes at least 1000
/// ns on a device, so longer batches are not needed.
Sampling fit_to_device(Sampling options);

/// Returns the verdict on a kernel for which the driver returned `error`: Resource for an
/// Environment error, Crash for any other error. Ends the process instead if the device is lost.
Verdict refusal(const runtime::Device& device, const Error& error);

}  // namespace tw::tuner
