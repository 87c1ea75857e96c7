// SPDX-License-Identifier: Apache-2.0
#include "tuner/checksums.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "codegen/backend.h"

namespace tw::tuner {
namespace {

constexpr int64_t word_bytes = sizeof(uint32_t);
// Enough to hide the latency of memory; and each thread has some words to add up, as its sum is
// twice as long as a word.
constexpr int64_t blocks_per_multiprocessor = 4, least_words_of_thread = 16;

/// What is left of an array after its last whole word, as a word; requires fewer than 4 bytes.
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

Result<DeviceChecksums> DeviceChecksums::make(std::shared_ptr<runtime::Device> device) {
  DeviceChecksums checksums(std::move(device));
  runtime::Device& on = *checksums.device_;
  const codegen::ChecksumKernel kernel = codegen::backend_of(on.facts()).checksum_kernel();
  TW_TRY(const runtime::DeviceModule module, on.load(kernel.code));
  TW_TRY(checksums.function_, module.function("checksum"));
  checksums.threads_ = kernel.threads;
  checksums.most_blocks_ = blocks_per_multiprocessor * std::max(on.facts().multiprocessors, 1);
  TW_TRY(checksums.words_, on.allocate(sizeof(uint64_t)));
  const int64_t most_sums = checksums.most_blocks_ * checksums.threads_;
  TW_TRY(checksums.sums_, on.allocate(most_sums * static_cast<int64_t>(sizeof(uint64_t))));
  return checksums;
}

Result<uint64_t> DeviceChecksums::of(const runtime::DeviceBuffer& buffer, int64_t bytes) const {
  const int64_t words = bytes / word_bytes, rest = bytes % word_bytes;
  uint64_t sum = 0;
  if (words > 0) {
    const int64_t blocks =
        std::clamp(words / (least_words_of_thread * threads_), int64_t{1}, most_blocks_);
    const auto count = static_cast<uint64_t>(words);
    TW_RETURN_IF_ERROR(words_.write(&count, sizeof count));
    const runtime::Launch launch{
        function_, blocks, threads_, 0, {buffer.address(), words_.address(), sums_.address()}};
    TW_RETURN_IF_ERROR(device_->launch({&launch, 1}));
    std::vector<uint64_t> sums(static_cast<size_t>(blocks * threads_));
    TW_RETURN_IF_ERROR(
        sums_.read(sums.data(), static_cast<int64_t>(sums.size() * sizeof(uint64_t))));
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

}  // namespace tw::tuner
