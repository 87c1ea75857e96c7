// SPDX-License-Identifier: Apache-2.0
#include "base/integer.h"

#include <gtest/gtest.h>

namespace tw {
namespace {

// If these computations overflowed, they would not be constant expressions, and this would not
// compile.
static_assert(floor_mod(INT64_MIN, 3) == 1);
static_assert(floor_mod(INT64_MIN, INT64_MAX) == INT64_MAX - 1);

TEST(Integer, DivisionRoundsDown) {
  for (int64_t a = -9; a <= 9; ++a)
    for (const int64_t b : {-4, -3, -1, 1, 2, 5}) {
      EXPECT_EQ(floor_div(a, b) * b + floor_mod(a, b), a) << a << " " << b;
      EXPECT_TRUE(b > 0 ? 0 <= floor_mod(a, b) && floor_mod(a, b) < b
                        : b < floor_mod(a, b) && floor_mod(a, b) <= 0)
          << a << " " << b;
    }
}

}  // namespace
}  // namespace tw
