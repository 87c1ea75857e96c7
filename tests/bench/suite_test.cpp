// SPDX-License-Identifier: Apache-2.0
#include "bench/suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tools/suites.h"

namespace tw::bench {
namespace {

using testing::HasSubstr;

const Item& find(const std::vector<Item>& items, const std::string& name) {
  for (const Item& item : items)
    if (item.name == name) return item;
  ADD_FAILURE() << "no row " << name;
  return items.front();
}

TEST(Suite, ReadsAConvolution) {
  const auto items = parse_suite("# a comment\nr07\t1\t128\t56\t56\t128\t3\t3\t2\t1\t1\t1\t4\n");
  ASSERT_TRUE(items) << items.error().message;
  ASSERT_EQ(items->size(), 1u);
  EXPECT_EQ((*items)[0].name, "r07");
  EXPECT_EQ((*items)[0].count, 4);
  EXPECT_EQ((*items)[0].workload.key(),
            "conv2d n=1 c=128 h=56 w=56 k=128 r=3 s=3 stride=2 pad=1 dilation=1 groups=1 f32 fast");
}

TEST(Suite, ReadsProducts) {
  const auto items = parse_suite("one\t1\t2\t3\t4\nmany\t12\t2\t3\t4\n");
  ASSERT_TRUE(items) << items.error().message;
  EXPECT_EQ((*items)[0].workload.key(), "dense m=2 n=3 k=4 f32 fast");
  EXPECT_EQ((*items)[1].workload.key(), "batch_matmul b=12 m=2 n=3 k=4 f32 fast");
}

TEST(Suite, NamesTheLineThatIsWrong) {
  const std::string good = "a\t1\t2\t3\t4\n";
  const std::pair<std::string, std::string> wrong[] = {
      {good + "b\t1\t2\n", "line 2: 3 columns"},
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

// Every row is a workload, and a benchmark's names mean what the program's suites mean by them.
TEST(Suite, TablesAgreeWithTheProgram) {
  for (const char* name : {"resnet50_conv", "odd_conv", "gemm"}) {
    const auto rows = load_suite(TW_BENCH_WORKLOADS, name);
    ASSERT_TRUE(rows) << rows.error().message;
    const auto expected = tools::suite(name);
    ASSERT_TRUE(expected) << expected.error().message;
    ASSERT_EQ(rows->size(), expected->size()) << name;
    for (size_t i = 0; i < rows->size(); ++i) {
      EXPECT_EQ((*rows)[i].name, (*expected)[i].name);
      EXPECT_EQ((*rows)[i].workload.key(), (*expected)[i].workload.key());
      EXPECT_EQ((*rows)[i].count, (*expected)[i].count) << (*rows)[i].name;
    }
  }
}

TEST(Suite, GroupsTellDepthwiseFromGrouped) {
  const auto rows = load_suite(TW_BENCH_WORKLOADS, "odd_conv");
  ASSERT_TRUE(rows);
  const auto weights = [&](const std::string& name) {
    return find(*rows, name).workload.compute.shape_of("w");
  };
  EXPECT_EQ(weights("dw7_96_56"), (std::vector<int64_t>{96, 7, 7}));
  EXPECT_EQ(weights("g32_128_56"), (std::vector<int64_t>{32, 4, 4, 3, 3}));
  EXPECT_EQ(weights("pw_96_24_56"), (std::vector<int64_t>{24, 96, 1, 1}));
}

TEST(Suite, UnknownNamesAreUsageErrorsThatListWhatThereIs) {
  const auto suite = load_suite(TW_BENCH_WORKLOADS, "resnet");
  ASSERT_FALSE(suite);
  EXPECT_EQ(suite.error().code, ErrorCode::Usage);
  EXPECT_THAT(suite.error().message, HasSubstr("gemm, odd_conv, resnet50_conv"));

  auto rows = load_suite(TW_BENCH_WORKLOADS, "gemm");
  ASSERT_TRUE(rows);
  const auto chosen = select(*rows, "sq512, sq256");
  ASSERT_TRUE(chosen);
  ASSERT_EQ(chosen->size(), 2u);
  EXPECT_EQ((*chosen)[0].name, "sq256");
  EXPECT_EQ(select(*rows, "")->size(), rows->size());
  const auto none = select(*rows, "sq512,sq3");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("'sq3'"));
}

TEST(Suite, ExpressionsAreNamedAfterTheirFiles) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TW_BENCH_EXPRESSIONS)) {
    const auto item = load_expression(entry.path().string());
    ASSERT_TRUE(item) << item.error().message;
    EXPECT_EQ(item->name, entry.path().stem().string());
    EXPECT_EQ(item->workload.op, "expr");
    ++files;
  }
  EXPECT_GE(files, 5);
  EXPECT_FALSE(load_expression("/nowhere/x.tw"));
}

}  // namespace
}  // namespace tw::bench
