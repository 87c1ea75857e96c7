// SPDX-License-Identifier: Apache-2.0
#include "graph/quantized.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tw::graph {
namespace {

using testing::ElementsAre;

std::vector<int64_t> elements(const dsl::Array& array) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < array.size(); ++i) values.push_back(array.get_int(i));
  return values;
}

TEST(Quantized, SumsAreOverAllOtherDimensions) {
  dsl::Array numbers = dsl::Array::make(Int8, {2, 3, 2}).value();
  for (int64_t i = 0; i < numbers.size(); ++i) numbers.set_int(i, i);
  EXPECT_EQ(sums_along(numbers, {0}).type, Int32);
  EXPECT_THAT(elements(sums_along(numbers, {0})), ElementsAre(15, 51));
  EXPECT_THAT(elements(sums_along(numbers, {1})), ElementsAre(14, 22, 30));
  EXPECT_THAT(elements(sums_along(numbers, {2})), ElementsAre(30, 36));
  EXPECT_THAT(elements(sums_along(numbers, {0, 2})), ElementsAre(6, 9, 24, 27));
  EXPECT_THAT(elements(sums_along(numbers, {})), ElementsAre(66));
  EXPECT_THAT(sums_along(numbers, {0, 2}).shape, ElementsAre(2, 2));
  EXPECT_EQ(elements(sums_along(numbers, {0, 1, 2})), elements(numbers));
}

}  // namespace
}  // namespace tw::graph
