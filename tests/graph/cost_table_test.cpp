// SPDX-License-Identifier: Apache-2.0
#include "graph/cost_table.h"

#include <gtest/gtest.h>

#include <limits>

namespace tw::graph {
namespace {

constexpr double forbidden = std::numeric_limits<double>::infinity();

TEST(CostTable, IsRowMajorOverItsVariables) {
  const CostTable table{{2, 0}, {2, 3}, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(table.at(std::vector<size_t>{0, 9, 0}), 1);
  EXPECT_EQ(table.at(std::vector<size_t>{2, 9, 0}), 3);
  EXPECT_EQ(table.at(std::vector<size_t>{1, 9, 1}), 5);
}

TEST(MinimizedSum, RemovesAVariable) {
  const CostTable own{{0}, {2}, {1, 5}};
  const CostTable pair{{0, 1}, {2, 3}, {4, 8, forbidden, 0, forbidden, forbidden}};
  const CostTable result = minimized_sum({&own, &pair}, {1}, {0}, {2, 3});
  EXPECT_EQ(result.variables, std::vector<size_t>{1});
  EXPECT_EQ(result.costs, (std::vector<double>{5, 9, forbidden}));
}

TEST(MinimizedSum, WithoutAKeptVariableIsTheMinimum) {
  const CostTable own{{0}, {2}, {3, -5}};
  const CostTable constant{{}, {}, {10}};
  const CostTable result = minimized_sum({&own, &constant}, {}, {0}, {2});
  EXPECT_TRUE(result.variables.empty());
  EXPECT_EQ(result.costs, std::vector<double>{5});
}

TEST(MinimizedSum, KeepsVariablesInTheOrderAskedFor) {
  // Compares the minimum over b of f(a, b) + g(b, c) + h(a, c), as a table over (c, a), with the
  // definition for all pairs.
  const std::vector<size_t> extents = {2, 3, 4};
  CostTable f{{0, 1}, {2, 3}, {}}, g{{1, 2}, {3, 4}, {}}, h{{0, 2}, {2, 4}, {}};
  for (int i = 0; i < 6; ++i) f.costs.push_back(i * 7 % 5);
  for (int i = 0; i < 12; ++i) g.costs.push_back(i * 5 % 7);
  for (int i = 0; i < 8; ++i) h.costs.push_back(i * 3 % 4);
  const CostTable result = minimized_sum({&f, &g, &h}, {2, 0}, {1}, extents);
  EXPECT_EQ(result.extents, (std::vector<size_t>{4, 2}));
  for (size_t c = 0; c < 4; ++c)
    for (size_t a = 0; a < 2; ++a) {
      double least = forbidden;
      for (size_t b = 0; b < 3; ++b) {
        const std::vector<size_t> states = {a, b, c};
        least = std::min(least, f.at(states) + g.at(states) + h.at(states));
      }
      EXPECT_EQ(result.at(std::vector<size_t>{a, 0, c}), least) << a << ' ' << c;
    }
}

}  // namespace
}  // namespace tw::graph
