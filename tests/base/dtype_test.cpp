// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "base/random.h"

namespace tw {
namespace {

TEST(DTypes, AreFoundByEachOfTheirNames) {
  for (const DType type : all_dtypes) {
    EXPECT_EQ(parse_dtype(to_string(type)).value(), type);
    EXPECT_EQ(find_dtype(&DTypeInfo::in_numpy, info_of(type).in_numpy), type);
    EXPECT_EQ(find_dtype(&DTypeInfo::in_onnx, info_of(type).in_onnx), type);
  }
  EXPECT_FALSE(find_dtype(&DTypeInfo::in_numpy, "f32"));
  EXPECT_EQ(
      parse_dtype("u64").error().message,
      "[dtype] 'u64' is no data type: use one of f32, f16, bf16, i8, u8, i32, i64, bool, f64, "
      "i16, u16, u32");
}

TEST(DTypes, DifferInKindOrSize) {
  std::set<std::pair<NumberKind, int>> seen;
  for (const DType type : all_dtypes)
    EXPECT_TRUE(seen.emplace(info_of(type).kind, size_bytes(type)).second) << to_string(type);
}

TEST(DTypes, IntegersWrapAtTheirLimits) {
  EXPECT_EQ(integer_limits(UInt16).largest, 65535);
  EXPECT_EQ(integer_limits(Int64).least, INT64_MIN);
  for (const DType type : all_dtypes) {
    if (is_float(type) || type == Bool || type == Int64) continue;
    const auto [least, largest] = integer_limits(type);
    EXPECT_EQ(wrap_to(type, largest + 1), least) << to_string(type);
    EXPECT_EQ(wrap_to(type, least - 1), largest) << to_string(type);
    EXPECT_EQ(wrap_to(type, least), least) << to_string(type);
    int64_t memory[2] = {};
    for (const int64_t value : {least, largest, int64_t{1}}) {
      store_int(type, memory, 1, value);
      EXPECT_EQ(load_int(type, memory, 1), value) << to_string(type);
    }
  }
  EXPECT_EQ(wrap_to(Bool, 256), 1);
}

double loaded(DType type, uint16_t bits) { return load_float(type, &bits, 0); }

uint16_t stored(DType type, double value) {
  uint16_t bits = 0;
  store_float(type, &bits, 0, value);
  return bits;
}

/// Returns the number with these bits. For f16, the compiler converts them; for bf16, they are the
/// upper half of an f32.
double expected_of(DType type, uint16_t bits) {
  if (type == Float16) return static_cast<double>(std::bit_cast<_Float16>(bits));
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

TEST(DTypes, EveryNumberOf16BitsIsLoadedAndStored) {
  for (const DType type : {Float16, BFloat16})
    for (int n = 0; n <= UINT16_MAX; ++n) {
      const auto bits = static_cast<uint16_t>(n);
      const double value = loaded(type, bits), expected = expected_of(type, bits);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(value)) << to_string(type) << " " << n;
        const int quiet = 1 << (format_of(type).fraction_bits - 1);
        ASSERT_EQ(stored(type, value), bits | quiet) << to_string(type) << " " << n;
      } else {
        ASSERT_EQ(std::bit_cast<uint64_t>(value), std::bit_cast<uint64_t>(expected))
            << to_string(type) << " " << n;
        ASSERT_EQ(stored(type, value), bits) << to_string(type);
      }
    }
}

TEST(DTypes, NumbersBetweenTwoGoToTheNearestAndTiesToTheEvenOne) {
  for (const DType type : {Float16, BFloat16})
    for (int n = 0; n < INT16_MAX; ++n) {
      const auto bits = static_cast<uint16_t>(n);
      const double low = expected_of(type, bits),
                   high = expected_of(type, static_cast<uint16_t>(n + 1));
      if (std::isnan(low) || std::isnan(high) || std::isinf(low)) continue;
      // If the upper neighbour is infinite, the middle is computed as if the type went on with the
      // same spacing.
      const double above = std::isinf(high) ? 2 * low - expected_of(type, bits - 1) : high;
      const double middle = low + (above - low) / 2;
      const uint16_t even = bits + bits % 2;
      ASSERT_EQ(stored(type, middle), even) << to_string(type) << " " << n;
      ASSERT_EQ(stored(type, std::nextafter(middle, 0.0)), bits) << to_string(type) << " " << n;
      ASSERT_EQ(stored(type, std::nextafter(middle, 1e300)), bits + 1)
          << to_string(type) << " " << n;
      ASSERT_EQ(stored(type, -middle), even | 0x8000) << to_string(type) << " " << n;
      ASSERT_EQ(round_to(type, middle), expected_of(type, even)) << to_string(type) << " " << n;
    }
}

TEST(DTypes, RandomNumbersAreRoundedAsTheCompilerRoundsThem) {
  Random random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const double value = std::ldexp(2 * random.unit() - 1, static_cast<int>(random.below(60)) - 40);
    ASSERT_EQ(stored(Float16, value), std::bit_cast<uint16_t>(static_cast<_Float16>(value)))
        << value;
  }
  for (const double value : {1e300, 1e39, 70000.0, 1e-30, 1e-300, 0.0})
    EXPECT_EQ(stored(Float16, -value), std::bit_cast<uint16_t>(static_cast<_Float16>(-value)));
}

TEST(DTypes, TheirLargestNumberIsBelowInfinity) {
  EXPECT_EQ(largest_number(Float16), 65504);
  EXPECT_EQ(largest_number(BFloat16), 0x1.fep127);
  EXPECT_EQ(largest_number(Float32), std::numeric_limits<float>::max());
  EXPECT_EQ(largest_number(Float64), std::numeric_limits<double>::max());
}

}  // namespace
}  // namespace tw
