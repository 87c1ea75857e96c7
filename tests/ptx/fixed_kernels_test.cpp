// SPDX-License-Identifier: Apache-2.0
// Kernels whose PTX is written by hand, on the interpreter.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "codegen/checksum_kernel.h"
#include "codegen/peak_kernel.h"
#include "tests/ptx/run.h"

namespace tw::ptx {
namespace {

/// Runs a kernel whose parameters are these arrays.
Status run_on_arrays(const std::string& text, const std::string& name, Launch launch,
                     const std::vector<std::span<std::byte>>& arrays) {
  TW_TRY(const Module module, parse(text));
  for (const std::span<std::byte> array : arrays) {
    const std::byte* at = array.data();
    const auto* bytes = reinterpret_cast<const std::byte*>(&at);
    launch.parameters.insert(launch.parameters.end(), bytes, bytes + sizeof at);
  }
  launch.global = arrays;
  return run(module.kernels.at(name), module, launch);
}

TEST(ChecksumKernel, SumsUpEachWordOnce) {
  const codegen::ChecksumKernel kernel = codegen::cuda_checksum_kernel();
  for (const uint64_t words : {uint64_t{0}, uint64_t{1}, uint64_t{255}, uint64_t{2000}})
    for (const int blocks : {1, 3}) {
      SCOPED_TRACE(testing::Message() << words << " words, " << blocks << " blocks");
      std::vector<uint32_t> data(words + 1);  // and one that does not count
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint32_t>(0x9e3779b9 * i + 5);
      std::vector<uint64_t> count = {words};
      std::vector<uint64_t> sums(static_cast<size_t>(blocks * kernel.threads), 1);
      const Status status = run_on_arrays(
          kernel.code.text, "checksum", {.blocks = blocks, .threads = kernel.threads},
          {std::as_writable_bytes(std::span(data)), std::as_writable_bytes(std::span(count)),
           std::as_writable_bytes(std::span(sums))});
      ASSERT_TRUE(status) << status.error().message;
      uint64_t expected = 0;
      for (uint64_t i = 0; i < words; ++i) expected += codegen::checksum_term(i, data[i]);
      EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), uint64_t{0}), expected);
    }
}

TEST(PeakKernel, KeepsItsSeed) {
  const codegen::PeakKernel kernel = codegen::cuda_peak_kernel();
  std::vector<float> seed = {1};
  const Status status = run_on_arrays(kernel.code.text, "peak", {.blocks = 1, .threads = 2},
                                      {std::as_writable_bytes(std::span(seed))});
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(seed[0], 1);
}

}  // namespace
}  // namespace tw::ptx
