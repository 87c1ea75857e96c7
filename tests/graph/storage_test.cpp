// SPDX-License-Identifier: Apache-2.0
#include "graph/storage.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "graph/plan.h"

namespace tw::graph {
namespace {

dsl::Layout nchw(const std::string& text) { return dsl::Layout::parse(text, "NCHW").value(); }

TEST(Storage, LayoutsThatPlaceAllElementsAlikeAreOne) {
  const auto same = [](const std::vector<int64_t>& shape, const char* a, const char* b) {
    return is_same_storage(shape, nchw(a), nchw(b));
  };
  EXPECT_TRUE(same({1, 64, 1, 1}, "NCHW", "NHWC"));
  EXPECT_TRUE(same({1, 64, 1, 1}, "NCHW", "NCHW16c"));
  EXPECT_TRUE(same({1, 16, 8, 8}, "NHWC", "NCHW16c"));
  EXPECT_TRUE(same({1, 1, 8, 8}, "NCHW", "NHWC"));
  EXPECT_TRUE(same({2, 32, 8, 8}, "NCHW", "NC16cHW"));
  EXPECT_FALSE(same({1, 32, 8, 8}, "NHWC", "NCHW16c"));
  EXPECT_FALSE(same({1, 2, 8, 8}, "NCHW", "NHWC"));
  EXPECT_FALSE(same({2, 32, 8, 8}, "NCHW", "CNHW"));
}

TEST(Storage, PaddingIsPartOfIt) {
  // Both layouts put 3 channels at 0, 1 and 2, but a kernel for blocks of 4 reads 4 elements.
  EXPECT_FALSE(is_same_storage({1, 3, 1, 1}, nchw("NCHW"), nchw("NCHW4c")));
  EXPECT_TRUE(is_same_storage({1, 3, 1, 1}, nchw("NHWC4c"), nchw("NCHW4c")));
}

TEST(Storage, TensorsWithoutDimensionsOrElementsHaveOne) {
  EXPECT_TRUE(is_same_storage({}, dsl::Layout::row_major(0), dsl::Layout::row_major(0)));
  EXPECT_TRUE(is_same_storage({2, 0, 3, 3}, nchw("NCHW"), nchw("NHWC4c")));
}

/// Returns a layout with three dimensions in random order and up to three splits by 2 to 4.
std::string random_layout_text(Random& random) {
  std::vector<std::string> parts = {"A", "B", "C"};
  random.shuffle(parts);
  for (int64_t splits = random.below(4); splits > 0; --splits) {
    const auto dim = static_cast<char>('A' + random.below(3));
    size_t outer = 0;
    while (parts[outer][0] != dim) ++outer;
    const auto left = static_cast<int64_t>(parts.size() - outer);
    const auto at = outer + 1 + static_cast<size_t>(random.below(left));
    parts.insert(parts.begin() + static_cast<ptrdiff_t>(at),
                 std::to_string(2 + random.below(3)) + static_cast<char>(dim - 'A' + 'a'));
  }
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

/// Returns the size of the array, followed by the offsets of all elements.
std::vector<int64_t> places(const std::vector<int64_t>& shape, const dsl::Layout& layout) {
  std::vector<int64_t> all = {1};
  for (const int64_t extent : layout.storage_shape(shape)) all[0] *= extent;
  for (int64_t a = 0; a < shape[0]; ++a)
    for (int64_t b = 0; b < shape[1]; ++b)
      for (int64_t c = 0; c < shape[2]; ++c) all.push_back(layout.offset(shape, {a, b, c}));
  return all;
}

TEST(Storage, EqualsTheDefinitionOnRandomLayouts) {
  Random random(1);
  int same = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::vector<int64_t> shape = {1 + random.below(5), 1 + random.below(5),
                                        1 + random.below(3)};
    const std::string a = random_layout_text(random), b = random_layout_text(random);
    const dsl::Layout first = dsl::Layout::parse(a, "ABC").value(),
                      second = dsl::Layout::parse(b, "ABC").value();
    const bool expected = places(shape, first) == places(shape, second);
    same += expected ? 1 : 0;
    ASSERT_EQ(is_same_storage(shape, first, second), expected)
        << a << ' ' << b << " of " << TensorType{Float32, shape}.to_string();
  }
  EXPECT_GT(same, 500);
}

TEST(Storage, SlicesOfTheOutermostDimensionAreArrays) {
  const auto offset = [](const std::vector<int64_t>& shape, const char* layout, int64_t begin,
                         int64_t end) {
    return offset_of_slice(shape, nchw(layout), 1, begin, end);
  };
  EXPECT_EQ(offset({1, 64, 8, 8}, "NCHW", 32, 64), 2048);
  EXPECT_EQ(offset({1, 64, 8, 8}, "NCHW16c", 32, 64), 2048);
  EXPECT_EQ(offset({1, 42, 8, 8}, "NCHW16c", 32, 42),
            2048);  // the slice is padded like the whole array
  EXPECT_EQ(offset({1, 64, 1, 1}, "NHWC", 32, 64), 32);
  EXPECT_EQ(offset({1, 64, 8, 8}, "NHWC", 32, 64), std::nullopt);
  EXPECT_EQ(offset({2, 64, 8, 8}, "NCHW", 32, 64), std::nullopt);
  EXPECT_EQ(offset({1, 64, 8, 8}, "NCHW64c", 32, 64), std::nullopt);
  EXPECT_EQ(offset({1, 64, 8, 8}, "NCHW16c", 16, 40), std::nullopt);
}

/// True if the slice could be an array of its own: from `offset` of the whole array on, its
/// elements are where the layout puts them in an array of the slice's shape.
bool is_slice_at(const std::vector<int64_t>& whole, const std::vector<int64_t>& slice,
                 const dsl::Layout& layout, size_t dimension, int64_t begin, int64_t offset) {
  std::vector<int64_t> at(3, 0);
  for (at[0] = 0; at[0] < slice[0]; ++at[0])
    for (at[1] = 0; at[1] < slice[1]; ++at[1])
      for (at[2] = 0; at[2] < slice[2]; ++at[2]) {
        std::vector<int64_t> moved = at;
        moved[dimension] += begin;
        if (layout.offset(whole, moved) != offset + layout.offset(slice, at)) return false;
      }
  return true;
}

TEST(Storage, SlicesLieWhereTheirOffsetSaysOnRandomLayouts) {
  Random random(2);
  int found = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::vector<int64_t> shape = {1 + random.below(2), 2 + random.below(7),
                                        1 + random.below(3)};
    const dsl::Layout layout = dsl::Layout::parse(random_layout_text(random), "ABC").value();
    const auto dimension = static_cast<size_t>(random.below(3));
    const int64_t begin = random.below(shape[dimension]);
    const int64_t end = begin + 1 + random.below(shape[dimension] - begin);
    const auto offset = offset_of_slice(shape, layout, dimension, begin, end);
    if (!offset) continue;
    std::vector<int64_t> slice = shape;
    slice[dimension] = end - begin;
    ASSERT_TRUE(is_slice_at(shape, slice, layout, dimension, begin, *offset))
        << layout.to_string("ABC") << " of " << TensorType{Float32, shape}.to_string();
    ++found;
  }
  EXPECT_GT(found, 2'000);
}

}  // namespace
}  // namespace tw::graph
