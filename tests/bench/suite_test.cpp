// SPDX-License-Identifier: Apache-2.0
#include "bench/suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace tw::bench {
namespace {

using testing::HasSubstr;

TEST(Suite, TablesAreThoseOfTheProgram) {
  for (const tools::SuiteInfo& info : tools::suites()) {
    const auto rows = load_suite(TW_BENCH_WORKLOADS, std::string(info.name));
    ASSERT_TRUE(rows) << rows.error().message;
    const auto expected = tools::suite(info.name);
    ASSERT_TRUE(expected) << expected.error().message;
    ASSERT_EQ(rows->size(), expected->size()) << info.name;
    for (size_t i = 0; i < rows->size(); ++i) {
      EXPECT_EQ((*rows)[i].name, (*expected)[i].name);
      EXPECT_EQ((*rows)[i].workload.key(), (*expected)[i].workload.key());
      EXPECT_EQ((*rows)[i].count, (*expected)[i].count) << (*rows)[i].name;
    }
  }
}

TEST(Suite, UnknownNamesAreUsageErrorsThatListWhatThereIs) {
  const auto suite = load_suite(TW_BENCH_WORKLOADS, "resnet");
  ASSERT_FALSE(suite);
  EXPECT_EQ(suite.error().code, ErrorCode::Usage);
  EXPECT_THAT(suite.error().message,
              HasSubstr("attention, few_bits, gemm, gemm_large, inception_conv, odd_conv, other, "
                        "resnet50_conv, resnet50_qlinear, vgg16_conv"));

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

TEST(Suite, VariantsHaveAnotherBatchOrType) {
  const auto convs = load_suite(TW_BENCH_WORKLOADS, "resnet50_conv").value();
  const auto same = variants(convs, 1, Float32).value();
  ASSERT_EQ(same.size(), convs.size());
  EXPECT_EQ(same[3].name, convs[3].name);
  EXPECT_EQ(same[3].workload.key(), convs[3].workload.key());
  const auto many = variants(convs, 32, BFloat16).value();
  EXPECT_EQ(many[3].name, "r04_n32");
  EXPECT_EQ(many[3].count, convs[3].count);
  EXPECT_EQ(many[3].workload.attributes.at("n"), 32);
  EXPECT_EQ(many[3].workload.dtype, BFloat16);
  const auto products = load_suite(TW_BENCH_WORKLOADS, "gemm").value();
  EXPECT_EQ(variants(products, 1, BFloat16).value()[0].workload.dtype, BFloat16);
  const auto refused = variants(products, 32, Float32);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Usage);
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
