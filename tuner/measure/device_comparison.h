// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays in the memory of a device, compared there: a bus is slower than the memory of a device by
// two orders of magnitude, and the processor needs longer than most kernels to look at what came.

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

/// Sum of codegen::checksum_term() over the words of 32 bits; the last one is filled up with zeros.
/// An array that differs in one word has another checksum; one that differs in more has the same
/// with a probability of about 2^-64.
uint64_t checksum_of(std::span<const std::byte> bytes);

/// Comparisons on one device, on whose queue they wait for what was launched before. Errors as
/// Device::launch() and DeviceBuffer::read(). Not thread-safe.
class DeviceComparison {
 public:
  static Result<DeviceComparison> make(std::shared_ptr<runtime::Device> device);

  /// checksum_of() the first `bytes` bytes.
  Result<uint64_t> checksum(const runtime::DeviceBuffer& buffer, int64_t bytes) const;
  /// max |got - expected| / max |expected| over this many elements, which agrees with
  /// relative_error() (reference.h) to f32's rounding. Nullopt where only the processor can tell:
  /// for types without a kernel, and where the result is not finite.
  Result<std::optional<double>> relative_error(const runtime::DeviceBuffer& got,
                                               const runtime::DeviceBuffer& expected, DType type,
                                               int64_t elements) const;

 private:
  explicit DeviceComparison(std::shared_ptr<runtime::Device> device) : device_(std::move(device)) {}
  /// Runs a kernel over `count` elements, at least one, and returns the 8 bytes that each of its
  /// threads wrote.
  Result<std::vector<uint64_t>> run(const runtime::DeviceFunction& kernel,
                                    std::vector<runtime::DeviceAddress> arrays,
                                    int64_t count) const;

  std::shared_ptr<runtime::Device> device_;
  runtime::DeviceFunction checksum_;
  std::map<std::string, runtime::DeviceFunction> differences_;  ///< by codegen's names
  int threads_ = 0;
  int64_t most_blocks_ = 0;
  runtime::DeviceBuffer count_, results_;
};

}  // namespace tw::tuner
