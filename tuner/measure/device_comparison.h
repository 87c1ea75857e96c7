// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compares arrays in the memory of a device by kernels that run on the device. Copying the arrays
// to the processor would be much slower: a bus is two orders of magnitude slower than the memory of
// a device, and the comparison on the processor takes longer than most kernels.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/result.h"
#include "runtime/device.h"

namespace tw::tuner {

/// Returns the sum, modulo 2^64, of codegen::checksum_term() over the 32-bit words; the last word
/// is padded with zeros. Arrays that differ in one word always have different checksums. Arrays
/// that differ in more words have the same checksum with a probability of about 2^-64.
uint64_t checksum_of(std::span<const std::byte> bytes);

/// Compares arrays on one device. A comparison runs after everything that was launched on the
/// device's queue before. All functions fail with the errors of Device::launch() and
/// DeviceBuffer::read(). Not thread-safe.
class DeviceComparison {
 public:
  static Result<DeviceComparison> make(std::shared_ptr<runtime::Device> device);

  /// Returns checksum_of() of the first `bytes` bytes of the buffer.
  Result<uint64_t> checksum(const runtime::DeviceBuffer& buffer, int64_t bytes) const;
  /// Returns max |got - expected| / max |expected| over the first `elements` elements. The result
  /// agrees with relative_error() (reference.h) up to f32 rounding. Returns nullopt if only the
  /// processor can compute the error: there are no elements, the device has no comparison kernel
  /// for `type`, or the result is not finite.
  Result<std::optional<double>> relative_error(const runtime::DeviceBuffer& got,
                                               const runtime::DeviceBuffer& expected, DType type,
                                               int64_t elements) const;

 private:
  explicit DeviceComparison(std::shared_ptr<runtime::Device> device) : device_(std::move(device)) {}
  /// Runs a kernel over `count` elements, and returns the 8 bytes that each of its threads wrote.
  /// Requires: count >= 1.
  Result<std::vector<uint64_t>> run(const runtime::DeviceFunction& kernel,
                                    std::vector<runtime::DeviceAddress> arrays,
                                    int64_t count) const;

  std::shared_ptr<runtime::Device> device_;
  runtime::DeviceFunction checksum_;
  /// The kernels that compare two arrays of one element type, by the names that codegen gives them.
  std::map<std::string, runtime::DeviceFunction> differences_;
  int threads_ = 0;
  int64_t most_blocks_ = 0;
  runtime::DeviceBuffer count_, results_;
};

}  // namespace tw::tuner
