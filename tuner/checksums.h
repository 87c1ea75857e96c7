// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checksums of arrays in the memory of a device, taken there: a bus is slower than the memory of a
// device by two orders of magnitude. An array that differs in one word of 32 bits has another
// checksum; one that differs in more has the same with a probability of about 2^-64.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "runtime/device.h"

namespace tw::tuner {

/// Sum of codegen::checksum_term() over the words; the last one is filled up with zeros.
uint64_t checksum_of(std::span<const std::byte> bytes);

/// The same on one device, on whose queue it waits for what was launched before. Not thread-safe.
class DeviceChecksums {
 public:
  static Result<DeviceChecksums> make(std::shared_ptr<runtime::Device> device);
  /// Of the first `bytes` bytes. Errors as Device::launch() and DeviceBuffer::read().
  Result<uint64_t> of(const runtime::DeviceBuffer& buffer, int64_t bytes) const;

 private:
  explicit DeviceChecksums(std::shared_ptr<runtime::Device> device) : device_(std::move(device)) {}

  std::shared_ptr<runtime::Device> device_;
  runtime::DeviceFunction function_;
  int threads_ = 0;
  int64_t most_blocks_ = 0;
  runtime::DeviceBuffer words_, sums_;
};

}  // namespace tw::tuner
