// SPDX-License-Identifier: Apache-2.0
#include "graph/renaming.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "base/integer.h"
#include "base/random.h"
#include "graph/plan.h"

namespace tw::graph {
namespace {

using Extents = std::vector<int64_t>;

dsl::Layout layout_of(const std::string& text, size_t rank) {
  return dsl::Layout::parse(text, dsl::default_letters(static_cast<int>(rank))).value();
}

/// Returns the text of the layout that the reshaped tensor has in the same array, or "none".
std::string reshaped(const Extents& from, const std::string& layout, const Extents& to) {
  const auto result = through_reshape(from, layout_of(layout, from.size()), to);
  return result ? result->to_string(dsl::default_letters(static_cast<int>(to.size()))) : "none";
}

TEST(Renaming, BlocksOfChannelsStayWherePositionsAreSplit) {
  const Extents phases = {1, 64, 8, 2, 8, 2}, image = {1, 64, 16, 16};
  EXPECT_EQ(reshaped(image, "ABCD16b", phases), "ABCDEF16b");
  EXPECT_EQ(reshaped(phases, "ABCDEF16b", image), "ABCD16b");
  EXPECT_EQ(reshaped(phases, "ACDEFB", image), "ACDB");
  EXPECT_EQ(reshaped(phases, "ABCEDF", image), "ABCD2c2d");  // tiles of 2 x 2
  EXPECT_EQ(reshaped(phases, "ABDCEF", image), "none");      // the rows of each phase together
}

TEST(Renaming, BlocksReachOverSeveralGroups) {
  const Extents grouped = {2, 32, 4, 8, 8}, image = {2, 128, 8, 8};
  EXPECT_EQ(reshaped(image, "ABCD16b", grouped), "ABDE4bC");
  EXPECT_EQ(reshaped(grouped, "ABDE4bC", image), "ABCD16b");
  EXPECT_EQ(reshaped(image, "ABCD2b", grouped), "ABCDE2c");
  EXPECT_EQ(reshaped(image, "ACDB", grouped), "ADEBC");
  EXPECT_EQ(reshaped(grouped, "ACDEB", image), "none");  // groups innermost: a shuffle
}

TEST(Renaming, PaddingStaysWithTheDimensionThatHasIt) {
  EXPECT_EQ(reshaped({1, 20, 8, 8}, "ABCD16b", {1, 20, 64}), "ABC16b");
  EXPECT_EQ(reshaped({1, 20, 8, 8}, "ABCD16b", {1, 5, 4, 8, 8}), "none");
  EXPECT_EQ(reshaped({1, 3, 8, 8}, "ABCD4b", {3, 64}), "AB4a");
  EXPECT_EQ(reshaped({1, 64, 8, 8}, "A4aBCD", {64, 64}), "none");
}

TEST(Renaming, BlocksThatCrossDimensionsAreNoLayout) {
  EXPECT_EQ(reshaped({1, 24, 8, 8}, "ABCD8b", {1, 6, 4, 8, 8}), "ABDE2bC");
  EXPECT_EQ(reshaped({1, 24, 8, 8}, "ABCD8b", {1, 2, 12, 8, 8}), "none");
  EXPECT_EQ(reshaped({1, 64, 8, 8}, "ACDB", {1, 4096}), "none");
}

TEST(Renaming, RowMajorArraysHaveAllShapes) {
  EXPECT_EQ(reshaped({2, 3, 5}, "ABC", {6, 5}), "AB");
  EXPECT_EQ(reshaped({0, 3}, "AB", {3, 0, 2}), "ABC");
  EXPECT_EQ(reshaped({0, 3}, "BA", {3, 0, 2}), "none");
}

TEST(Renaming, TransposesPermuteLayouts) {
  // The dimensions n, c, h, w of the tensor are the dimensions 0, 3, 1, 2 of its transpose.
  const std::vector<size_t> positions = {0, 3, 1, 2};
  EXPECT_TRUE(through_transpose(layout_of("ACDB", 4), positions).is_row_major());
  EXPECT_EQ(through_transpose(layout_of("ABCD16b", 4), positions).to_string("ABCD"), "ADBC16d");
}

/// Returns a layout with the dimensions of the shape in declared or random order and up to two
/// splits by 2 to 4.
std::string random_layout(Random& random, const Extents& shape) {
  std::vector<std::string> parts;
  for (size_t d = 0; d < shape.size(); ++d) parts.emplace_back(1, static_cast<char>('A' + d));
  if (random.below(2)) random.shuffle(parts);
  for (int64_t splits = random.below(3); splits > 0; --splits) {
    const auto dim = static_cast<size_t>(random.below(std::ssize(shape)));
    const std::string outer(1, static_cast<char>('A' + dim));
    const auto first = std::ranges::find(parts, outer) - parts.begin() + 1;
    const auto at = first + random.below(std::ssize(parts) - first + 1);
    parts.insert(parts.begin() + at,
                 std::to_string(2 + random.below(3)) + static_cast<char>('a' + dim));
  }
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

Extents indices_at(int64_t element, const Extents& shape) {
  Extents indices(shape.size());
  for (size_t d = shape.size(); d-- > 0; element /= shape[d]) indices[d] = element % shape[d];
  return indices;
}

/// Returns a shape with the same number of elements, in which dimensions are joined or split.
Extents random_reshape(Random& random, Extents shape) {
  for (int64_t changes = 1 + random.below(3); changes > 0; --changes) {
    const auto d = static_cast<size_t>(random.below(std::ssize(shape)));
    const auto at = shape.begin() + static_cast<ptrdiff_t>(d);
    if (d + 1 < shape.size() && random.below(2)) {
      shape[d] *= shape[d + 1];
      shape.erase(at + 1);
    } else {
      const int64_t factor = shape[d] % 2 == 0 ? 2 : 1;
      shape[d] /= factor;
      shape.insert(shape.begin() + static_cast<ptrdiff_t>(d) + 1, factor);
    }
  }
  return shape;
}

TEST(Renaming, ElementsOfRandomReshapesStayWhereTheyAre) {
  Random random(3);
  int kept = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Extents from = {1 + random.below(4), 1 + random.below(8), 1 + random.below(6)};
    const Extents to = random_reshape(random, from);
    const std::string text = random_layout(random, from);
    const dsl::Layout layout = layout_of(text, from.size());
    const auto result = through_reshape(from, layout, to);
    if (!result) continue;
    kept += layout.is_row_major() ? 0 : 1;
    SCOPED_TRACE(text + " -> " + result->to_string(dsl::default_letters(result->rank())));
    ASSERT_EQ(*checked_product(result->storage_shape(to)),
              *checked_product(layout.storage_shape(from)));
    for (int64_t element = 0; element < *checked_product(from); ++element)
      ASSERT_EQ(result->offset(to, indices_at(element, to)),
                layout.offset(from, indices_at(element, from)));
    // The reshape back gives a layout with the same storage.
    const auto back = through_reshape(to, *result, from);
    ASSERT_TRUE(back);
    ASSERT_TRUE(is_same_storage(from, layout, *back)) << back->to_string("ABC");
  }
  EXPECT_GT(kept, 1000);
}

}  // namespace
}  // namespace tw::graph
