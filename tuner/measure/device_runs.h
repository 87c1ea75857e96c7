// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs kernels on a device. They are verified as on the processor (verify.h), as far as a device's
// memory allows, and timed by the device's clock.
//
// A device has no guard pages. Instead, a guard zone with a pattern lies behind each buffer. The
// pattern must be there after each run, and inputs must still have their checksums, which finds
// writes to memory that a kernel must not write. Reads of a guard zone make two runs differ, as the
// pattern differs between runs. If the device is lost, the worker exits (exit_with), and the next
// worker opens the device again. Not thread-safe.

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

  /// Larger than a row of tiles of the widest kernels. An access beyond the zone loses the device.
  static constexpr int64_t guard_bytes = 64 << 10;

 private:
  runtime::DeviceBuffer buffer_;
};

/// Cache of inputs and expected outputs on a device, in the layouts that kernels ask for, because a
/// copy over the bus takes longer than most kernels. The least recently used arrays are dropped
/// first.
class DeviceArrays {
 public:
  struct Kept {
    GuardedMemory memory;
    uint64_t checksum;  ///< checksum of the right contents
  };
  /// The array in that layout, from the cache or copied to the device. The array must outlive its
  /// entries: call clear() before the array is destroyed, and after a kernel that may have changed
  /// an entry.
  Result<std::shared_ptr<const Kept>> get(runtime::Device& device, const dsl::Array& array,
                                          const dsl::Layout& layout,
                                          const std::string& layout_text);
  /// The comparison kernels, which the first call loads on the device. Requires: all calls are for
  /// the same device.
  Result<std::shared_ptr<const DeviceComparison>> comparison(
      const std::shared_ptr<runtime::Device>& device);
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    const dsl::Array* array;
    std::string layout;
    std::shared_ptr<const Kept> kept;
  };
  std::list<Entry> entries_;  ///< most recently used first
  std::shared_ptr<const DeviceComparison> comparison_;
};

/// All device memory of a kernel: the arguments, with the inputs of one fill, the prepared buffers,
/// and the scratch memory.
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
  /// The outputs of the latest call, unpacked. Oob if a call wrote outside of its buffers;
  /// MutatesInput if a call wrote to an input or to a prepared buffer.
  Outputs outputs() const;
  /// Compares the outputs of the latest call with the reference. An output is copied to the
  /// processor only if the device cannot tell that it is right.
  Verdict compare(const Reference& reference, Pass pass, DeviceArrays& kept) const;
  /// Checksums of the outputs, in order. They leave out the padding of the layouts, which kernels
  /// need not write.
  Result<std::vector<uint64_t>> output_checksums() const;
  /// True if the outputs of the latest call have these checksums. Errors as outputs().
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
  /// relative_error() of an output. The device's result is used if it is at most `allowed`;
  /// otherwise the processor computes it.
  Result<double> error_of(size_t argument, const dsl::Array& expected, double allowed,
                          bool overflows, DeviceArrays& kept) const;

  struct Argument {
    dsl::Layout layout;
    GuardedMemory memory;
    std::shared_ptr<const DeviceArrays::Kept> input;  ///< null for an output
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
  std::optional<GuardedMemory> scratch_;  ///< nullopt if the kernel needs no scratch memory
  Poison poison_ = Poison::First;
};

/// Verifies a kernel by the runs of judge() on the device.
Verdict verify(const std::shared_ptr<runtime::Device>& device, const runtime::DeviceKernel& kernel,
               const dsl::Workload& workload, const Reference& reference, DeviceArrays& kept);

/// Calls a kernel once and returns its outputs. Invalid if the kernel reads or writes memory
/// wrongly. Ends the process if the device is lost.
Result<dsl::Arrays> call_once(const std::shared_ptr<runtime::Device>& device,
                              const runtime::DeviceKernel& kernel, const dsl::Workload& workload,
                              const dsl::Arrays& inputs);

/// A timer of calls that consist of these launches, by the device's clock. A batch is handed to the
/// device in one piece, so that even calls shorter than a launch can be timed. If timing fails, the
/// timer calls `failed` and counts a second for each call, which ends the sampling. If `failed` is
/// empty, it ends the worker.
Timer timed_on(std::shared_ptr<runtime::Device> device, std::vector<runtime::Launch> call,
               std::function<void(const Error&)> failed = {});

/// Adapts the options to the clock of a device. CUDA's clock ticks every 500 ns, and OpenCL's
/// mostly faster; a call takes at least 1000 ns on a device.
Sampling fit_to_device(Sampling options);

/// The verdict on a kernel for which the driver returned an error: Resource for an Environment
/// error, Crash for any other. Ends the process if the device is lost.
Verdict refusal(const runtime::Device& device, const Error& error);

}  // namespace tw::tuner
