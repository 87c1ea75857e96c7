// SPDX-License-Identifier: Apache-2.0
// Tests of comparison kernels on devices. tests/ptx runs these kernels with the interpreter of PTX,
// too.
#include "codegen/compare_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "codegen/backend.h"
#include "dsl/array.h"
#include "tests/codegen/gpu_runs.h"

namespace tw::codegen {
namespace {

void require(const Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}
template <typename T>
T require(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

/// Runs a comparison kernel in `blocks` blocks of threads. Returns the 8 bytes that each thread
/// wrote. Throws on an error of the device.
std::vector<uint64_t> results_of(runtime::Device& device, const std::string& kernel, int blocks,
                                 const std::vector<const dsl::Array*>& arrays, uint64_t count) {
  const CompareKernels kernels = backend_of(device.facts()).compare_kernels();
  const runtime::DeviceModule module = require(device.load(kernels.code));
  std::vector<runtime::DeviceBuffer> buffers;
  const auto add = [&](const void* data, size_t bytes) {
    buffers.push_back(require(device.allocate(static_cast<int64_t>(bytes))));
    require(buffers.back().write(data, static_cast<int64_t>(bytes)));
  };
  for (const dsl::Array* array : arrays) add(array->data.data(), array->data.size());
  add(&count, sizeof count);
  std::vector<uint64_t> results(static_cast<size_t>(blocks * kernels.threads), 7);
  const size_t bytes = results.size() * sizeof(uint64_t);
  add(results.data(), bytes);
  runtime::Launch launch{require(module.function(kernel)), blocks, kernels.threads};
  for (const runtime::DeviceBuffer& buffer : buffers) launch.arguments.push_back(buffer.address());
  require(device.launch({&launch, 1}));
  require(buffers.back().read(results.data(), static_cast<int64_t>(bytes)));
  return results;
}

/// Returns the largest difference of two elements and the largest expected element, as the kernel
/// finds them.
std::pair<double, double> largest_of(runtime::Device& device, const dsl::Array& got,
                                     const dsl::Array& expected) {
  std::pair<uint32_t, uint32_t> largest;
  for (const uint64_t result :
       results_of(device, *difference_kernel(expected.type), 3, {&got, &expected},
                  static_cast<uint64_t>(expected.size()))) {
    largest.first = std::max(largest.first, static_cast<uint32_t>(result));
    largest.second = std::max(largest.second, static_cast<uint32_t>(result >> 32));
  }
  return {std::bit_cast<float>(largest.first), std::bit_cast<float>(largest.second)};
}

void expect_compares(runtime::Device& device) {
  dsl::Array words = *dsl::Array::make(Int32, {5001});
  for (int64_t i = 0; i < words.size(); ++i) words.set_int(i, i * 0x9e3779b9);
  uint64_t expected_sum = 0;
  for (int64_t i = 0; i < 5000; ++i)
    expected_sum +=
        checksum_term(static_cast<uint64_t>(i), static_cast<uint32_t>(words.get_int(i)));
  const std::vector<uint64_t> sums = results_of(device, "checksum", 3, {&words}, 5000);
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), uint64_t{0}), expected_sum);

  for (const DType type : {Float32, Float16, BFloat16}) {
    SCOPED_TRACE(to_string(type));
    dsl::Array expected = *dsl::Array::make(type, {5001});
    for (int64_t i = 0; i < expected.size(); ++i)
      expected.set_float(i, static_cast<double>(i % 7) - 3);
    dsl::Array got = expected;
    EXPECT_EQ(largest_of(device, got, expected), std::pair(0.0, 3.0));
    got.set_float(5000, got.get_float(5000) - 0.25);
    got.set_float(17, got.get_float(17) + 0.5);
    EXPECT_EQ(largest_of(device, got, expected), std::pair(0.5, 3.0));
    got.set_float(3, std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(std::isnan(largest_of(device, got, expected).first));
  }
}

TEST(OpenCl, ComparesArrays) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << device.error().message;
  expect_compares(**device);
}

TEST(Cuda, ComparesArrays) {
  const auto device = runtime::open_cuda_device();
  if (!device) GTEST_SKIP() << device.error().message;
  expect_compares(**device);
}

}  // namespace
}  // namespace tw::codegen
