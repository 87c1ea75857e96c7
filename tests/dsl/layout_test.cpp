// SPDX-License-Identifier: Apache-2.0
#include "dsl/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/random.h"

namespace tw::dsl {
namespace {

using ::testing::HasSubstr;

int64_t product(const std::vector<int64_t>& extents) {
  int64_t total = 1;
  for (const int64_t extent : extents) total *= extent;
  return total;
}

void for_each_index(const std::vector<int64_t>& shape,
                    const std::function<void(const std::vector<int64_t>&)>& visit) {
  std::vector<int64_t> indices(shape.size());
  for (int64_t linear = 0; linear < product(shape); ++linear) {
    int64_t rest = linear;
    for (size_t i = shape.size(); i-- > 0;) {
      indices[i] = rest % shape[i];
      rest /= shape[i];
    }
    visit(indices);
  }
}

TEST(Layout, ParsesAndPrints) {
  for (const char* text : {"NCHW", "NHWC", "NCHW16c", "NC4n2cHW", "CNHW3w2n"})
    EXPECT_EQ(Layout::parse(text, "NCHW")->to_string("NCHW"), text);
  EXPECT_EQ(Layout::parse("OIHW4i16o4i", "OIHW")->to_string("OIHW"), "OIHW4i16o4i");
  EXPECT_TRUE(Layout::parse("NCHW", "NCHW")->is_row_major());
  EXPECT_FALSE(Layout::parse("NHWC", "NCHW")->is_row_major());
  EXPECT_EQ(*Layout::parse("AB", "AB"), Layout::row_major(2));
  EXPECT_EQ(Layout::row_major(3).to_string(""), "ABC");
  EXPECT_TRUE(Layout::parse("", "")->is_row_major());
}

TEST(Layout, RefusesWithTheReason) {
  const auto why = [](const char* text) {
    const auto layout = Layout::parse(text, "NCHW");
    return layout ? std::string("ok") : layout.error().message;
  };
  EXPECT_THAT(why("NCH"), HasSubstr("'W' must occur once"));
  EXPECT_THAT(why("NCHWC"), HasSubstr("'C' must occur once, not 2"));
  EXPECT_THAT(why("N16cCHW"), HasSubstr("'C' must stand before its splits"));
  EXPECT_THAT(why("NCHW16"), HasSubstr("followed by a letter"));
  EXPECT_THAT(why("NCHWc"), HasSubstr("outer parts are capitals"));
  EXPECT_THAT(why("NCHW4C"), HasSubstr("outer parts are capitals"));
  EXPECT_THAT(why("NCHW1c"), HasSubstr("a factor lies in"));
  EXPECT_THAT(why("NCHW0c"), HasSubstr("a factor lies in"));
  EXPECT_THAT(why("NCHW16x"), HasSubstr("names no dimension"));
  EXPECT_THAT(why("NCHW99999999999999999999c"), HasSubstr("a factor lies in"));
  EXPECT_THAT(why("NCHW1048576c1048576c1048576c1048576c"), HasSubstr("exceed"));
  EXPECT_FALSE(Layout::parse("NN", "NN"));
}

TEST(Layout, RoundsTailsUp) {
  const Layout layout = *Layout::parse("NCHW16c", "NCHW");
  EXPECT_EQ(layout.storage_shape({1, 20, 3, 5}), (std::vector<int64_t>{1, 2, 3, 5, 16}));
  EXPECT_EQ(layout.storage_shape({0, 20, 3, 5}), (std::vector<int64_t>{0, 2, 3, 5, 16}));
  EXPECT_EQ(layout.offset({1, 20, 3, 5}, {0, 17, 2, 4}), ((1 * 3 + 2) * 5 + 4) * 16 + 1);
}

TEST(Layout, SizesOfStorageAreLimited) {
  const Layout layout = *Layout::parse("AB4096a16777216b", "AB");
  EXPECT_EQ(layout.storage_bytes({3, 5}, Float32), int64_t{1} << 38);
  EXPECT_EQ(layout.storage_bytes({int64_t{1} << 30, 5}, Float32), int64_t{1} << 56);
  EXPECT_FALSE(layout.storage_bytes({int64_t{1} << 30, 5}, Float64));
  EXPECT_FALSE(layout.storage_bytes({int64_t{1} << 37, 5}, Float64));  // the bytes leave 64 bits
  EXPECT_FALSE(layout.storage_bytes({int64_t{1} << 45, 5}, Int8));     // the elements do
}

TEST(Layout, SplitsOneDimensionTwice) {
  const Layout layout = *Layout::parse("OI4i2o4i", "OI");
  EXPECT_EQ(layout.storage_shape({3, 20}), (std::vector<int64_t>{2, 2, 4, 2, 4}));
  // The splits of the indices are i = 1*16 + 2*4 + 3 and o = 1*2 + 0.
  EXPECT_EQ(layout.offset({3, 20}, {2, 27 - 16}), (((1 * 2 + 0) * 4 + 2) * 2 + 0) * 4 + 3);
}

TEST(Layout, EveryOffsetIsDistinctInsideAndAgreesWithTheIndices) {
  const struct {
    const char *text, *letters;
    std::vector<int64_t> shape;
  } cases[] = {{"NCHW4c", "NCHW", {2, 6, 3, 5}},
               {"NHWC", "NCHW", {2, 3, 4, 5}},
               {"OI4i2o4i", "OI", {5, 21}},
               {"BA3a2b2a", "AB", {13, 5}},
               {"CHWN4n3w", "NCHW", {5, 2, 2, 7}}};
  for (const auto& [text, letters, shape] : cases) {
    const Layout layout = *Layout::parse(text, letters);
    const std::vector<int64_t> storage = layout.storage_shape(shape);
    std::set<int64_t> seen;
    for_each_index(shape, [&](const std::vector<int64_t>& indices) {
      const int64_t offset = layout.offset(shape, indices);
      EXPECT_GE(offset, 0);
      EXPECT_LT(offset, product(storage));
      EXPECT_TRUE(seen.insert(offset).second) << text;
      const std::vector<Expr> symbolic = layout.storage_indices({indices.begin(), indices.end()});
      int64_t linear = 0;
      for (size_t i = 0; i < storage.size(); ++i)
        linear = linear * storage[i] + *as_int(symbolic[i]);
      EXPECT_EQ(linear, offset) << text;
    });
  }
}

TEST(Layout, RandomLayoutsAreInjectiveAndPrintBack) {
  Random random(11);
  for (int round = 0; round < 200; ++round) {
    const int rank = 1 + static_cast<int>(random.below(3));
    std::vector<std::string> outer;
    std::string text;
    std::vector<int64_t> shape;
    for (int dim = 0; dim < rank; ++dim) {
      outer.emplace_back(1, static_cast<char>('A' + dim));
      shape.push_back(1 + random.below(9));
    }
    random.shuffle(outer);
    for (const std::string& letter : outer) text += letter;
    for (int64_t i = random.below(4); i > 0; --i)
      text += std::to_string(2 + random.below(4)) + static_cast<char>('a' + random.below(rank));
    const auto layout = Layout::parse(text, default_letters(rank));
    ASSERT_TRUE(layout) << text;
    EXPECT_EQ(layout->to_string(""), text);
    std::set<int64_t> seen;
    for_each_index(shape, [&](const auto& indices) {
      const int64_t offset = layout->offset(shape, indices);
      EXPECT_TRUE(offset >= 0 && offset < product(layout->storage_shape(shape))) << text;
      EXPECT_TRUE(seen.insert(offset).second) << text;
    });
  }
}

TEST(Layout, LayoutsOfTensorsPrintSortedAndParseBack) {
  const Layouts layouts = {{"out", "NHWC"}, {"in", "NCHW16c"}};
  EXPECT_EQ(print_layouts(layouts), "in=NCHW16c out=NHWC");
  EXPECT_EQ(parse_layouts(" out=NHWC  in=NCHW16c "), layouts);
  EXPECT_EQ(parse_layouts(""), Layouts());
  for (const char* text : {"in", "in=", "=NHWC", "in=NHWC in=NCHW"}) {
    const auto parsed = parse_layouts(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::Usage);
  }
}

TEST(Layout, Fault06_OffsetsBeyond2To31AreExact) {
  const Layout layout = *Layout::parse("NC16c", "NC");
  EXPECT_EQ(layout.offset({100000, 100000}, {99999, 99999}), int64_t{100000} * 100000 - 1);
}

}  // namespace
}  // namespace tw::dsl
