// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel on a device: verified as on the processor (verify.h) as far as a device's memory allows,
// and timed by the device's clock.
//
// A device has no guard pages. Behind each buffer lies a zone with a pattern that must be there
// after each run, and inputs must have the checksum that they were given with: what a kernel writes
// where it must not is found, what it reads there makes two runs differ, as the zones hold other
// poison in each. A device that is lost takes its worker along (exit_with), whose successor opens
// it afresh. Not thread-safe.

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

/// Memory of a device with a guard zone behind it.
class GuardedMemory {
 public:
  static Result<GuardedMemory> make(runtime::Device& device, int64_t bytes);

  runtime::DeviceAddress address() const { return buffer_.address(); }
  int64_t bytes() const { return buffer_.bytes() - guard_bytes; }

  Status write(const std::vector<std::byte>& data) const {
    return buffer_.write(data.data(), bytes());
  }
  Result<std::vector<std::byte>> read() const;
  /// The allocation, guard zone included.
  const runtime::DeviceBuffer& buffer() const { return buffer_; }
  Status poison(Poison pattern) const;
  Status poison_guard(Poison pattern) const;
  /// True if the guard zone still holds the pattern.
  Result<bool> intact(Poison pattern) const;

  /// More than a row of tiles of the widest kernels: who strays further loses the device.
  static constexpr int64_t guard_bytes = 64 << 10;

 private:
  runtime::DeviceBuffer buffer_;
};

/// Cache of inputs and expected outputs on a device, in the layouts that kernels ask for, as a copy
/// over the bus takes longer than most kernels. The least recently used arrays are dropped first.
class DeviceArrays {
 public:
  struct Kept {
    GuardedMemory memory;
    uint64_t checksum;  ///< of what it must hold
  };
  /// The array must outlive its entries: call clear() before the array is destroyed, and after a
  /// kernel that may have changed an entry.
  Result<std::shared_ptr<const Kept>> get(runtime::Device& device, const dsl::Array& array,
                                          const dsl::Layout& layout,
                                          const std::string& layout_text);
  /// The comparison kernels, loaded on the device at the first call. Requires the same device in
  /// all calls.
  Result<std::shared_ptr<const DeviceComparison>> comparison(
      const std::shared_ptr<runtime::Device>& device);
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    const dsl::Array* array;
    std::string layout;
    std::shared_ptr<const Kept> kept;
  };
  std::list<Entry> entries_;  ///< the latest first
  std::shared_ptr<const DeviceComparison> comparison_;
};

/// The arguments, the prepared buffers and the scratch memory of a kernel, with the inputs of one
/// fill.
class DeviceBuffers {
 public:
  static Result<DeviceBuffers> make(const std::shared_ptr<runtime::Device>& device,
                                    const runtime::DeviceKernel& kernel,
                                    const dsl::Workload& workload, const dsl::Arrays& inputs,
                                    DeviceArrays& kept);

  /// Outputs, scratch memory and every guard zone.
  Status poison(Poison pattern);
  /// The launches of one call of the kernel.
  std::vector<runtime::Launch> launches() const;
  /// Outputs that the calls left, unpacked. Oob if a call wrote outside of its buffers,
  /// MutatesInput if it wrote to an input or to a prepared buffer.
  Outputs outputs() const;
  /// Compares the outputs that the calls left with the reference. An output is read back only if
  /// the device cannot tell that it is right.
  Verdict compare(const Reference& reference, Pass pass, DeviceArrays& kept) const;
  /// Checksums of the outputs, in order, without the padding of their layouts, which kernels may
  /// leave as it is.
  Result<std::vector<uint64_t>> output_checksums() const;
  /// True if the outputs that the calls left have these checksums. Errors as outputs().
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
  /// relative_error() of an output, computed by the device if it finds at most `allowed`.
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
    uint64_t checksum;  ///< of what the preparation computed
  };
  std::vector<Argument> arguments_;
  std::vector<Prepared> prepared_;
  std::optional<GuardedMemory> scratch_;  ///< none: no bytes of it
  Poison poison_ = Poison::First;
};

/// The runs of judge() on the device.
Verdict verify(const std::shared_ptr<runtime::Device>& device, const runtime::DeviceKernel& kernel,
               const dsl::Workload& workload, const Reference& reference, DeviceArrays& kept);

/// One call; what it does wrong in memory is an error. Does not return when the device is lost.
Result<dsl::Arrays> call_once(const std::shared_ptr<runtime::Device>& device,
                              const runtime::DeviceKernel& kernel, const dsl::Workload& workload,
                              const dsl::Arrays& inputs);

/// Calls of these launches by the device's clock. A batch goes to the device in one piece, so that
/// calls shorter than their launch are timed too. What fails is told to `failed`, and counted as a
/// second, which ends the sampling; without one it ends the worker.
Timer timed_on(std::shared_ptr<runtime::Device> device, std::vector<runtime::Launch> call,
               std::function<void(const Error&)> failed = {});

/// CUDA's clock ticks every 500 ns, OpenCL's mostly finer; a call takes a device 1000 ns at least.
Sampling fit_to_device(Sampling options);

/// Verdict on a kernel for which the driver returned an error: Resource for an Environment error,
/// Crash for any other. Does not return when the device is lost.
Verdict refusal(const runtime::Device& device, const Error& error);

}  // namespace tw::tuner
