// SPDX-License-Identifier: Apache-2.0
#include "tools/suites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace tw::tools {
namespace {

using testing::HasSubstr;

TEST(ParseSuite, ReadsAConvolution) {
  const auto items = parse_suite("# a comment\nr07\t1\t128\t56\t56\t128\t3\t3\t2\t1\t1\t1\t4\n");
  ASSERT_TRUE(items) << items.error().message;
  ASSERT_EQ(items->size(), 1u);
  EXPECT_EQ((*items)[0].name, "r07");
  EXPECT_EQ((*items)[0].count, 4);
  EXPECT_EQ((*items)[0].workload.key(),
            "conv2d n=1 c=128 h=56 w=56 k=128 r=3 s=3 stride=2 pad=1 dilation=1 groups=1 f32 fast");
}

TEST(ParseSuite, ReadsProducts) {
  const auto items = parse_suite("one\t1\t2\t3\t4\nmany\t12\t2\t3\t4\n");
  ASSERT_TRUE(items) << items.error().message;
  EXPECT_EQ((*items)[0].workload.key(), "dense m=2 n=3 k=4 f32 fast");
  EXPECT_EQ((*items)[1].workload.key(), "batch_matmul b=12 m=2 n=3 k=4 f32 fast");
}

TEST(ParseSuite, NamesTheLineThatIsWrong) {
  const std::string good = "a\t1\t2\t3\t4\n";
  const std::pair<std::string, std::string> wrong[] = {
      {good + "b\t1\t2\t3\n", "line 2: 4 columns"},
      {good + "b\t1\t2\tx\t4\n", "line 2: 'x'"},
      {good + "b\t1\t2\t-3\t4\n", "line 2: '-3'"},
      {good + good, "line 2: a second row 'a'"},
      {"c\t1\t4\t8\t8\t4\t3\t3\t1\t1\t1\t3\t1\n", "line 1: [conv2d] groups=3 must divide"},
  };
  for (const auto& [text, message] : wrong) {
    const auto items = parse_suite(text);
    ASSERT_FALSE(items) << text;
    EXPECT_EQ(items.error().code, ErrorCode::Invalid);
    EXPECT_THAT(items.error().message, HasSubstr(message));
  }
}

TEST(ParseSuite, ReadsAnyOperatorByItsAttributes) {
  const auto items = parse_suite("sum\treduce_sum\trows=3 cols=5\n", dsl::Accuracy::Strict);
  ASSERT_TRUE(items) << items.error().message;
  EXPECT_EQ((*items)[0].workload.key(), "reduce_sum rows=3 cols=5 f32 strict");
  const auto unknown = parse_suite("sum\treduce_sun\trows=3 cols=5\n");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("line 1: "));
}

TEST(Suites, AreTheTablesWithTheirFirstLines) {
  std::map<std::string, size_t> rows;
  for (const SuiteInfo& info : suites()) {
    rows[std::string(info.name)] = suite(info.name)->size();
    EXPECT_FALSE(info.summary.empty()) << info.name;
    EXPECT_NE(info.summary[0], '#') << info.name;
  }
  EXPECT_EQ(rows, (std::map<std::string, size_t>{{"attention", 5},
                                                 {"few_bits", 6},
                                                 {"gemm", 14},
                                                 {"gemm_large", 2},
                                                 {"inception_conv", 16},
                                                 {"odd_conv", 29},
                                                 {"other", 10},
                                                 {"resnet50_conv", 23},
                                                 {"resnet50_qlinear", 23},
                                                 {"vgg16_conv", 9}}));
  EXPECT_EQ(suites()[2].name, "gemm");
  EXPECT_EQ(suites()[2].summary, "matrix products: square, skinny, of transformers, with a vector");
  EXPECT_EQ(suites().back().summary, "the 9 distinct convolutions of VGG-16: 3x3, stride 1");
}

TEST(Suites, CountTheLayersOfTheNetwork) {
  int64_t layers = 0;
  const auto items = suite("resnet50_conv");
  ASSERT_TRUE(items);
  for (const SuiteItem& item : *items) layers += item.count;
  EXPECT_EQ(layers, 53);
}

TEST(Suites, EveryRowIsAWorkloadThatPrintsAndParses) {
  for (const SuiteInfo& info : suites()) {
    const auto items = suite(info.name);
    ASSERT_TRUE(items.has_value()) << items.error().message;
    for (const SuiteItem& item : *items) {
      const auto again = dsl::parse_workload(item.workload.key());
      ASSERT_TRUE(again.has_value()) << item.name;
      EXPECT_EQ(again->key(), item.workload.key());
    }
  }
}

TEST(Suites, Fault02_UnknownOnesAreUsage) {
  const auto none = suite("gem");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::Usage);
  EXPECT_NE(none.error().message.find("did you mean 'gemm'"), std::string::npos);
}

TEST(Suites, GroupsTellDepthwiseFromGrouped) {
  const auto rows = suite("odd_conv");
  ASSERT_TRUE(rows);
  const auto weights = [&](const std::string& name) {
    const auto row = std::find_if(rows->begin(), rows->end(),
                                  [&](const SuiteItem& item) { return item.name == name; });
    return row->workload.compute.shape_of("w");
  };
  EXPECT_EQ(weights("dw7_96_56"), (std::vector<int64_t>{96, 7, 7}));
  EXPECT_EQ(weights("g32_128_56"), (std::vector<int64_t>{32, 4, 4, 3, 3}));
  EXPECT_EQ(weights("pw_96_24_56"), (std::vector<int64_t>{24, 96, 1, 1}));
}

}  // namespace
}  // namespace tw::tools
