// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/device_comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "dsl/array.h"
#include "tuner/measure/reference.h"

namespace tw::tuner {
namespace {

std::vector<std::byte> random_bytes(size_t count) {
  Random random(7);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

TEST(Checksum, DependsOnEachByteAndOnItsPlace) {
  std::vector<std::byte> bytes = random_bytes(67);
  const uint64_t before = checksum_of(bytes);
  for (std::byte& byte : bytes) {
    byte ^= std::byte{16};
    EXPECT_NE(checksum_of(bytes), before);
    byte ^= std::byte{16};
  }
  EXPECT_EQ(checksum_of(bytes), before);
  std::swap(bytes[3], bytes[7]);  // exchanges bytes of two words
  EXPECT_NE(checksum_of(bytes), before);
}

TEST(Checksum, IsTheSameOnADevice) {
  const auto device = runtime::open_opencl_device();
  if (!device) GTEST_SKIP() << "[SKIP] " << device.error().message;
  const auto comparison = DeviceComparison::make(*device);
  ASSERT_TRUE(comparison) << comparison.error().message;
  // The sizes range from no word to more words than all threads read at once.
  for (const size_t count : {0, 1, 3, 4, 31, 4096, 300'001, 5'000'002}) {
    SCOPED_TRACE(count);
    const std::vector<std::byte> bytes = random_bytes(count);
    const auto size = static_cast<int64_t>(count);
    const auto buffer = (*device)->allocate(size + 8);  // bytes behind `size` do not count
    ASSERT_TRUE(buffer) << buffer.error().message;
    ASSERT_TRUE(buffer->fill(0xee));
    ASSERT_TRUE(buffer->write(bytes.data(), size));
    const auto checksum = comparison->checksum(*buffer, size);
    ASSERT_TRUE(checksum) << checksum.error().message;
    EXPECT_EQ(*checksum, checksum_of(bytes));
  }
}

class Differences : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const auto device = runtime::open_opencl_device();
    if (!device) GTEST_SKIP() << "[SKIP] " << device.error().message;
    device_ = *device;
    auto made = DeviceComparison::make(device_);
    ASSERT_TRUE(made) << made.error().message;
    comparison_.emplace(std::move(*made));
  }

  runtime::DeviceBuffer on_device(const dsl::Array& array) const {
    const auto bytes = static_cast<int64_t>(array.data.size());
    const auto buffer = device_->allocate(bytes);
    if (!buffer || !buffer->write(array.data.data(), bytes)) throw std::runtime_error("memory");
    return *buffer;
  }

  std::optional<double> error_of(const dsl::Array& got, const dsl::Array& expected) const {
    const auto error = comparison_->relative_error(on_device(got), on_device(expected),
                                                   expected.type, expected.size());
    if (!error) throw std::runtime_error(error.error().message);
    return *error;
  }

  std::shared_ptr<runtime::Device> device_;
  std::optional<DeviceComparison> comparison_;
};

TEST_P(Differences, AreThoseOfTheProcessor) {
  Random random(3);
  for (const int64_t size : {1, 3, 4097, 300'001}) {
    SCOPED_TRACE(size);
    dsl::Array expected = *dsl::Array::make(GetParam(), {size}), got = expected;
    for (int64_t i = 0; i < size; ++i) {
      const double value = (2 * random.unit() - 1);
      expected.set_float(i, value);
      got.set_float(i, value * (1 + 1e-2 * (2 * random.unit() - 1)));
    }
    const auto error = error_of(got, expected);
    ASSERT_TRUE(error);
    EXPECT_NEAR(*error, relative_error(got, expected), 1e-6 * *error);
    EXPECT_EQ(error_of(expected, expected), 0);
  }
}

TEST_P(Differences, AreLeftToTheProcessorWhereTheyAreNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  dsl::Array expected = *dsl::Array::make(GetParam(), {3});
  for (int64_t i = 0; i < 3; ++i) expected.set_float(i, 1);
  for (const double wrong : {infinity, -infinity, std::nan("")}) {
    dsl::Array got = expected;
    got.set_float(1, wrong);
    EXPECT_FALSE(error_of(got, expected)) << wrong;
    EXPECT_FALSE(error_of(expected, got)) << wrong;
    EXPECT_FALSE(error_of(got, got)) << wrong;  // its largest element is no scale
  }
  dsl::Array zero = *dsl::Array::make(GetParam(), {3});
  EXPECT_FALSE(error_of(zero, zero));
}

INSTANTIATE_TEST_SUITE_P(Types, Differences, testing::Values(Float32, Float16, BFloat16),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST(DifferencesOfIntegers, AreLeftToTheProcessor) {
  const auto device = runtime::open_opencl_device();
  if (!device) GTEST_SKIP() << "[SKIP] " << device.error().message;
  const auto comparison = DeviceComparison::make(*device);
  ASSERT_TRUE(comparison) << comparison.error().message;
  const auto buffer = (*device)->allocate(8);
  ASSERT_TRUE(buffer) << buffer.error().message;
  const auto error = comparison->relative_error(*buffer, *buffer, Int32, 2);
  ASSERT_TRUE(error) << error.error().message;
  EXPECT_FALSE(*error);
}

}  // namespace
}  // namespace tw::tuner
