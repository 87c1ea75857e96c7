// SPDX-License-Identifier: Apache-2.0
#include "base/small_vector.h"

#include <gtest/gtest.h>

#include <vector>

namespace tw {
namespace {

using Small = SmallVector<int, 4>;

Small counted(int count) {
  Small v;
  for (int i = 0; i < count; ++i) v.push_back(i);
  return v;
}
std::vector<int> items(const Small& v) { return {v.begin(), v.end()}; }

TEST(SmallVector, GrowsBeyondItself) {
  for (const int count : {0, 3, 4, 5, 100}) {
    const Small v = counted(count);
    ASSERT_EQ(v.size(), static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) EXPECT_EQ(v[static_cast<size_t>(i)], i);
  }
}

TEST(SmallVector, CopiesAreApart) {
  for (const int count : {2, 10}) {
    Small a = counted(count), b = a, c = counted(7);
    c = a;
    a[0] = 99;
    EXPECT_EQ(items(b), items(c));
    EXPECT_EQ(b[0], 0);
    c = counted(1);
    EXPECT_EQ(items(c), std::vector<int>{0});
  }
}

TEST(SmallVector, ErasesInOrder) {
  for (const int count : {4, 6}) {
    Small v = counted(count);
    v.erase(1);
    v.erase(static_cast<size_t>(count) - 2);
    std::vector<int> left = {0};
    for (int i = 2; i + 1 < count; ++i) left.push_back(i);
    EXPECT_EQ(items(v), left);
  }
}

TEST(SmallVector, AnElementMayBeAppendedToItsVector) {
  Small v = counted(4);
  v.push_back(v[3]);
  EXPECT_EQ(items(v), (std::vector<int>{0, 1, 2, 3, 3}));
}

}  // namespace
}  // namespace tw
