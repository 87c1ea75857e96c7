// SPDX-License-Identifier: Apache-2.0
#include "tuner/checksums.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

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
  std::swap(bytes[3], bytes[7]);  // of two words
  EXPECT_NE(checksum_of(bytes), before);
}

TEST(Checksum, IsTheSameOnADevice) {
  const auto device = runtime::open_opencl_device();
  if (!device) GTEST_SKIP() << "[SKIP] " << device.error().message;
  const auto checksums = DeviceChecksums::make(*device);
  ASSERT_TRUE(checksums) << checksums.error().message;
  // From no word to more than all threads take at once.
  for (const size_t count : {0, 1, 3, 4, 31, 4096, 300'001, 5'000'002}) {
    SCOPED_TRACE(count);
    const std::vector<std::byte> bytes = random_bytes(count);
    const auto size = static_cast<int64_t>(count);
    const auto buffer = (*device)->allocate(size + 8);  // what follows does not count
    ASSERT_TRUE(buffer) << buffer.error().message;
    ASSERT_TRUE(buffer->fill(0xee));
    ASSERT_TRUE(buffer->write(bytes.data(), size));
    const auto checksum = checksums->of(*buffer, size);
    ASSERT_TRUE(checksum) << checksum.error().message;
    EXPECT_EQ(*checksum, checksum_of(bytes));
  }
}

}  // namespace
}  // namespace tw::tuner
