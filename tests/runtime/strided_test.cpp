// SPDX-License-Identifier: Apache-2.0
#include "runtime/strided.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/random.h"

namespace tw::runtime {
namespace {

TEST(Strided, GatherAndScatterAgreeWithIndexArithmeticOnRandomViews) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    const int64_t bytes = random.pick(std::vector<int64_t>{1, 2, 4, 8});
    StridedView view{nullptr, bytes, {}, {}};
    for (int64_t rank = random.below(4); rank > 0; --rank) {
      view.shape.push_back(random.below(4));
      view.strides.push_back(random.below(41) - 20);
    }
    std::vector<char> memory(static_cast<size_t>(bytes) * 200);
    for (char& byte : memory) byte = static_cast<char>(random.below(256));
    view.data = memory.data() + 100 * bytes;
    int64_t count = 1;
    for (const int64_t extent : view.shape) count *= extent;
    std::vector<char> packed(static_cast<size_t>(count * bytes)), expected;
    for (int64_t flat = 0; flat < count; ++flat) {
      int64_t offset = 0, rest = flat;
      for (size_t axis = view.shape.size(); axis-- > 0; rest /= view.shape[axis])
        offset += rest % view.shape[axis] * view.strides[axis];
      expected.insert(expected.end(), view.data + offset * bytes, view.data + (offset + 1) * bytes);
    }
    gather(view, packed.data());
    ASSERT_EQ(packed, expected);
    const std::vector<char> before = memory;
    scatter(packed.data(), view);  // writes the elements back to the places that they came from
    ASSERT_EQ(memory, before);
  }
}

TEST(Strided, ContiguityIgnoresStridesOfSingleElements) {
  EXPECT_TRUE(is_contiguous({nullptr, 4, {2, 3}, {3, 1}}));
  EXPECT_TRUE(is_contiguous({nullptr, 4, {2, 1, 3}, {3, 99, 1}}));
  EXPECT_TRUE(is_contiguous({nullptr, 4, {}, {}}));
  EXPECT_FALSE(is_contiguous({nullptr, 4, {2, 3}, {1, 2}}));
  EXPECT_FALSE(is_contiguous({nullptr, 4, {3}, {-1}}));
}

TEST(Strided, DistinctElements) {
  EXPECT_TRUE(elements_are_distinct({nullptr, 4, {2, 3}, {1, 2}}));
  EXPECT_TRUE(elements_are_distinct({nullptr, 4, {2, 3}, {-3, 1}}));
  EXPECT_FALSE(elements_are_distinct({nullptr, 4, {2, 3}, {2, 1}}));
  EXPECT_FALSE(elements_are_distinct({nullptr, 4, {2}, {0}}));
}

TEST(Strided, ByteRangeCoversNegativeStrides) {
  char memory[64];
  const auto range = byte_range({memory + 32, 4, {3, 2}, {-2, 1}});
  ASSERT_TRUE(range);
  EXPECT_EQ(range->begin, reinterpret_cast<uintptr_t>(memory + 16));
  EXPECT_EQ(range->end, reinterpret_cast<uintptr_t>(memory + 40));
}

}  // namespace
}  // namespace tw::runtime
