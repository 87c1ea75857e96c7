// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/device_comparison.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "codegen/backend.h"

namespace tw::tuner {
namespace {

constexpr int64_t word_bytes = sizeof(uint32_t), result_bytes = sizeof(uint64_t);
// A launch has at most blocks_per_multiprocessor blocks for each multiprocessor, which are enough
// to hide the latency of memory. Small arrays get fewer blocks, so that a thread still compares at
// least least_elements_of_thread elements: each thread writes a result of 8 bytes, and with fewer
// elements the results would be much of the traffic.
constexpr int64_t blocks_per_multiprocessor = 4, least_elements_of_thread = 16;

/// Returns the bytes as one 32-bit word, in which missing bytes are zeros. Requires: at most 4
/// bytes.
uint32_t word_of(std::span<const std::byte> rest) {
  uint32_t word = 0;
  if (!rest.empty()) std::memcpy(&word, rest.data(), rest.size());
  return word;
}

}  // namespace

uint64_t checksum_of(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  uint64_t index = 0;
  for (; bytes.size() >= word_bytes; bytes = bytes.subspan(word_bytes))
    sum += codegen::checksum_term(index++, word_of(bytes.first(word_bytes)));
  return bytes.empty() ? sum : sum + codegen::checksum_term(index, word_of(bytes));
}

Result<DeviceComparison> DeviceComparison::make(std::shared_ptr<runtime::Device> device) {
  DeviceComparison made(std::move(device));
  runtime::Device& on = *made.device_;
  const codegen::CompareKernels kernels = codegen::backend_of(on.facts()).compare_kernels();
  TW_TRY(const runtime::DeviceModule module, on.load(kernels.code));
  TW_TRY(made.checksum_, module.function("checksum"));
  for (const DType type : {Float32, Float16, BFloat16}) {
    const std::string name = *codegen::difference_kernel(type);
    TW_TRY(made.differences_[name], module.function(name));
  }
  made.threads_ = kernels.threads;
  made.most_blocks_ = blocks_per_multiprocessor * std::max(on.facts().multiprocessors, 1);
  TW_TRY(made.count_, on.allocate(sizeof(uint64_t)));
  TW_TRY(made.results_, on.allocate(made.most_blocks_ * made.threads_ * result_bytes));
  return made;
}

Result<std::vector<uint64_t>> DeviceComparison::run(const runtime::DeviceFunction& kernel,
                                                    std::vector<runtime::DeviceAddress> arrays,
                                                    int64_t count) const {
  const int64_t blocks =
      std::clamp(count / (least_elements_of_thread * threads_), int64_t{1}, most_blocks_);
  const auto elements = static_cast<uint64_t>(count);
  TW_RETURN_IF_ERROR(count_.write(&elements, sizeof elements));
  arrays.push_back(count_.address());
  arrays.push_back(results_.address());
  const runtime::Launch launch{kernel, blocks, threads_, 0, std::move(arrays)};
  TW_RETURN_IF_ERROR(device_->launch({&launch, 1}));
  std::vector<uint64_t> results(static_cast<size_t>(blocks * threads_));
  TW_RETURN_IF_ERROR(
      results_.read(results.data(), static_cast<int64_t>(results.size()) * result_bytes));
  return results;
}

Result<uint64_t> DeviceComparison::checksum(const runtime::DeviceBuffer& buffer,
                                            int64_t bytes) const {
  const int64_t words = bytes / word_bytes, rest = bytes % word_bytes;
  uint64_t sum = 0;
  if (words > 0) {
    TW_TRY(const std::vector<uint64_t> sums, run(checksum_, {buffer.address()}, words));
    sum = std::accumulate(sums.begin(), sums.end(), uint64_t{0});
  }
  if (rest > 0) {
    std::array<std::byte, word_bytes> last = {};
    TW_RETURN_IF_ERROR(buffer.read(last.data(), rest, bytes - rest));
    sum += codegen::checksum_term(static_cast<uint64_t>(words),
                                  word_of(std::span(last).first(static_cast<size_t>(rest))));
  }
  return sum;
}

Result<std::optional<double>> DeviceComparison::relative_error(
    const runtime::DeviceBuffer& got, const runtime::DeviceBuffer& expected, DType type,
    int64_t elements) const {
  const auto name = codegen::difference_kernel(type);
  if (!name || elements == 0) return std::nullopt;
  TW_TRY(const std::vector<uint64_t> results,
         run(differences_.at(*name), {got.address(), expected.address()}, elements));
  std::array<uint32_t, 2> largest = {};
  for (const uint64_t result : results) {
    const auto pair = std::bit_cast<std::array<uint32_t, 2>>(result);
    for (size_t i = 0; i < largest.size(); ++i) largest[i] = std::max(largest[i], pair[i]);
  }
  const double difference = std::bit_cast<float>(largest[0]);
  const double magnitude = std::bit_cast<float>(largest[1]);
  const double error = difference / magnitude;
  return std::isfinite(difference) && std::isfinite(magnitude) && std::isfinite(error)
             ? std::optional(error)
             : std::nullopt;
}

}  // namespace tw::tuner
