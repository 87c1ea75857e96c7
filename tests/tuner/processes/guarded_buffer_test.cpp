// SPDX-License-Identifier: Apache-2.0
#include "tuner/processes/guarded_buffer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

namespace tw::tuner {
namespace {

GuardedBuffer make(size_t bytes, BufferOptions options = {}) {
  auto made = GuardedBuffer::make(bytes, options);
  if (!made) ADD_FAILURE() << made.error().message;
  return std::move(made).value();
}

class Sizes : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(, Sizes, testing::Values(0, 1, 4, 63, 64, 100, 4095, 4096, 4097, 3 << 20));

TEST_P(Sizes, Fault37_TheGuardBeginsWhereTheDataStart) {
  const GuardedBuffer b = make(GetParam(), {.align = Align::Begin});
  EXPECT_EQ(region_of(b.data() - 1), Region::GuardBefore);
  EXPECT_EQ(region_of(b.data()), Region::Elsewhere);
}

TEST_P(Sizes, Fault37_TheGuardBeginsWhereTheDataEnd) {
  const GuardedBuffer exact = make(GetParam(), {.align = Align::End, .alignment = 1});
  EXPECT_EQ(region_of(exact.data() + exact.size()), Region::GuardAfter);
  EXPECT_EQ(region_of(exact.data() + exact.size() - 1), Region::Elsewhere);
}

TEST_P(Sizes, DataAreAlignedAndTheSlackIsSmallerThanTheAlignment) {
  for (const size_t alignment : {size_t{4}, size_t{64}}) {
    const GuardedBuffer b = make(GetParam(), {.align = Align::End, .alignment = alignment});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data()) % alignment, 0u);
    EXPECT_EQ(region_of(b.data() + b.size() + alignment), Region::GuardAfter);
  }
}

TEST_P(Sizes, AllDataAreWritableWithoutTouchingTheCanaries) {
  for (const Align align : {Align::Begin, Align::End}) {
    const GuardedBuffer b = make(GetParam(), {.align = align});
    std::memset(b.data(), 0, b.size());
    EXPECT_EQ(b.check(), Slack::Intact);
  }
}

TEST(GuardedBuffer, Fault37_EveryByteOfTheSlackIsWatched) {
  const GuardedBuffer end = make(100, {.align = Align::End});  // 28 bytes of slack after it
  for (int i = 0; i < 28; ++i) {
    std::byte& canary = end.data()[100 + i];
    const std::byte before = canary;
    canary ^= std::byte{1};
    EXPECT_EQ(end.check(), Slack::TouchedAfter) << i;
    canary = before;
  }
  EXPECT_EQ(end.check(), Slack::Intact);
  end.data()[-1] ^= std::byte{1};
  EXPECT_EQ(end.check(), Slack::TouchedBefore);
}

TEST(GuardedBuffer, HugePagesKeepTheGuards) {
  for (const Align align : {Align::Begin, Align::End}) {
    const size_t bytes = (size_t{5} << 20) + 64;
    const GuardedBuffer b = make(bytes, {.align = align, .huge_pages = true});
    if (align == Align::Begin) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data()) % (2 << 20), 0u);
    }
    EXPECT_EQ(region_of(align == Align::Begin ? b.data() - 1 : b.data() + bytes),
              align == Align::Begin ? Region::GuardBefore : Region::GuardAfter);
    EXPECT_EQ(b.check(), Slack::Intact);
  }
}

TEST(GuardedBuffer, GuardsReachFurtherThanARow) {
  const GuardedBuffer b = make(64);
  EXPECT_EQ(region_of(b.data() + 64 + (128 << 10)), Region::GuardAfter);
  EXPECT_EQ(region_of(b.data() - (128 << 10)), Region::GuardBefore);
}

TEST(Poison, IsANanInEveryFloatingPointType) {
  for (const Poison pattern : {Poison::First, Poison::Second}) {
    GuardedBuffer b = make(16);
    b.poison(pattern);
    double as_double;
    float as_float;
    uint16_t as_half;
    std::memcpy(&as_double, b.data(), 8);
    std::memcpy(&as_float, b.data(), 4);
    std::memcpy(&as_half, b.data(), 2);
    EXPECT_TRUE(std::isnan(as_double));
    EXPECT_TRUE(std::isnan(as_float));
    EXPECT_TRUE((as_half & 0x7c00) == 0x7c00 && (as_half & 0x03ff) != 0);  // f16
    EXPECT_TRUE((as_half & 0x7f80) == 0x7f80 && (as_half & 0x007f) != 0);  // bf16
  }
}

TEST(Poison, CountsWhatWasNeverWritten) {
  GuardedBuffer b = make(40);
  b.poison(Poison::First);
  EXPECT_EQ(b.poisoned(4, Poison::First), 10);
  EXPECT_EQ(b.poisoned(4, Poison::Second), 0);
  const float one = 1;
  std::memcpy(b.data() + 12, &one, 4);
  EXPECT_EQ(b.poisoned(4, Poison::First), 9);
  b.data()[0] ^= std::byte{1};  // an element is written if any of its bytes is
  EXPECT_EQ(b.poisoned(4, Poison::First), 8);
}

TEST(GuardedBuffer, Fault39_ReadOnlyMemoryIsKnownAsAnInput) {
  GuardedBuffer b = make(100);
  ASSERT_TRUE(b.make_read_only());
  EXPECT_EQ(region_of(b.data() + 50), Region::ReadOnly);
  EXPECT_EQ(b.check(), Slack::Intact);
  ASSERT_TRUE(b.make_writable());
  b.data()[50] = std::byte{1};
  EXPECT_EQ(region_of(b.data() + 50), Region::Elsewhere);
}

TEST(GuardedBuffer, Fault13_HugeSizesAreErrors) {
  for (const size_t bytes : {size_t{1} << 47, ~size_t{0}, ~size_t{0} - 4096}) {
    const auto made = GuardedBuffer::make(bytes);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::Environment);
  }
}

TEST(GuardedBuffer, MovesAndReleases) {
  GuardedBuffer a = make(64);
  const std::byte* data = a.data();
  GuardedBuffer b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(region_of(data + 64), Region::GuardAfter);
  b = make(128);
  EXPECT_EQ(b.size(), 128u);
}

TEST(GuardedBuffer, TableEntriesAreReused) {
  for (int i = 0; i < 3000; ++i) make(1);
  std::vector<GuardedBuffer> many;
  for (;;) {
    auto made = GuardedBuffer::make(1);
    if (!made) break;
    ASSERT_LT(many.size(), 10'000u);
    many.push_back(std::move(*made));
  }
  EXPECT_GE(many.size(), 1000u);
}

TEST(RegionOf, OrdinaryMemoryIsElsewhere) {
  const int local = 0;
  EXPECT_EQ(region_of(&local), Region::Elsewhere);
  EXPECT_EQ(region_of(nullptr), Region::Elsewhere);
}

}  // namespace
}  // namespace tw::tuner
