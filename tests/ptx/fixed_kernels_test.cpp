// SPDX-License-Identifier: Apache-2.0
// Tests kernels whose PTX is written by hand, with the interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "codegen/compare_kernels.h"
#include "codegen/peak_kernel.h"
#include "dsl/array.h"
#include "tests/ptx/run.h"

namespace tw::ptx {
namespace {

/// Runs the kernel `name` of a text. Its parameters are pointers to these arrays.
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
  const codegen::CompareKernels kernel = codegen::cuda_compare_kernels();
  for (const uint64_t words : {uint64_t{0}, uint64_t{1}, uint64_t{255}, uint64_t{2000}})
    for (const int blocks : {1, 3}) {
      SCOPED_TRACE(testing::Message() << words << " words, " << blocks << " blocks");
      std::vector<uint32_t> data(words + 1);  // the last word does not count
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

/// Returns the largest difference and the largest expected element that the kernel finds.
std::pair<double, double> largest_of(DType type, const dsl::Array& got, const dsl::Array& expected,
                                     int blocks) {
  const codegen::CompareKernels kernels = codegen::cuda_compare_kernels();
  dsl::Array a = got, b = expected;
  std::vector<uint64_t> count = {static_cast<uint64_t>(expected.size())};
  std::vector<uint32_t> largest(static_cast<size_t>(2 * blocks * kernels.threads), 7);
  const Status status = run_on_arrays(
      kernels.code.text, *codegen::difference_kernel(type),
      {.blocks = blocks, .threads = kernels.threads},
      {std::as_writable_bytes(std::span(a.data)), std::as_writable_bytes(std::span(b.data)),
       std::as_writable_bytes(std::span(count)), std::as_writable_bytes(std::span(largest))});
  if (!status) throw std::runtime_error(status.error().message);
  uint32_t difference = 0, magnitude = 0;
  for (size_t i = 0; i < largest.size(); i += 2) {
    difference = std::max(difference, largest[i]);
    magnitude = std::max(magnitude, largest[i + 1]);
  }
  return {std::bit_cast<float>(difference), std::bit_cast<float>(magnitude)};
}

TEST(DifferenceKernels, FindTheLargestOfEachThread) {
  for (const DType type : {Float32, Float16, BFloat16})
    for (const int blocks : {1, 3}) {
      SCOPED_TRACE(testing::Message() << to_string(type) << ", " << blocks << " blocks");
      dsl::Array expected = *dsl::Array::make(type, {1999});
      for (int64_t i = 0; i < expected.size(); ++i)
        expected.set_float(i, static_cast<double>(i % 7) - 3);
      dsl::Array got = expected;
      EXPECT_EQ(largest_of(type, got, expected, blocks), std::pair(0.0, 3.0));
      got.set_float(1200, got.get_float(1200) + 0.5);
      got.set_float(17, got.get_float(17) - 0.25);
      EXPECT_EQ(largest_of(type, got, expected, blocks), std::pair(0.5, 3.0));
      expected.set_float(0, -5);
      EXPECT_EQ(largest_of(type, got, expected, blocks), std::pair(2.0, 5.0));
      got.set_float(1998, std::numeric_limits<double>::infinity());
      expected.set_float(1998, std::numeric_limits<double>::infinity());
      EXPECT_EQ(largest_of(type, got, expected, blocks).first, 2);  // no difference
      got.set_float(1998, std::nan(""));
      EXPECT_TRUE(std::isnan(largest_of(type, got, expected, blocks).first));
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
