// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/access.h"

#include <gtest/gtest.h>

namespace tw::cost_model::facts {
namespace {

using dsl::Expr;
using dsl::var;
using schedules::Buffer;
using schedules::LoopKind;

const std::vector<Level> levels = {
    make_level({}, "y", 0, 56, LoopKind::Serial), make_level({}, "x", 0, 14, LoopKind::Unrolled),
    make_level({}, "kx", 0, 3, LoopKind::Unrolled), make_level({}, "v", 0, 16, LoopKind::Vector)};
constexpr size_t y = 0, x = 1, kx = 2, v = 3;
const CacheLines x86 = {.bytes = 64, .way_bytes = 4096};
const Buffer image{"in", Float32, {58, 58, 16}, schedules::Scope::Argument};

Access image_at(const Expr& a, const Expr& b, const Expr& c) {
  return make_access(image, {a, b, c}, levels);
}
auto only(std::vector<size_t> chosen) {
  return [chosen](size_t level) {
    return std::find(chosen.begin(), chosen.end(), level) != chosen.end();
  };
}

TEST(Access, PatternsFollowTheVectorLoopsStride) {
  EXPECT_EQ(pattern(image_at(var("y"), var("x"), var("v")), v), Pattern::Contiguous);
  EXPECT_EQ(pattern(image_at(var("y"), var("x"), 3), v), Pattern::Broadcast);
  EXPECT_EQ(pattern(image_at(var("y"), var("v"), 0), v), Pattern::Strided);
  EXPECT_EQ(pattern(image_at(var("y"), 0, var("v") * 2), v), Pattern::Strided);
  EXPECT_EQ(pattern(image_at(var("y"), 0, var("v") % 4), v), Pattern::Gather);
  const Expr table = dsl::read("t", {var("v")}, Int64);
  EXPECT_EQ(pattern(image_at(var("y"), 0, table), v), Pattern::Gather);
}

// 3 taps at 14 neighbouring pixels read 16 pixels, not 42.
TEST(Access, OverlappingWindowsCountOnce) {
  const Access window = image_at(var("y"), var("x") + var("kx"), 0);
  EXPECT_EQ(distinct_elements(window, levels, only({x, kx})), 16);
  EXPECT_EQ(distinct_elements(window, levels, only({x})), 14);
  EXPECT_EQ(distinct_elements(window, levels, only({})), 1);
}

TEST(Access, StridesAreNoRange) {
  const Access strided = image_at(var("y"), var("x") * 4, 0);
  EXPECT_EQ(distinct_elements(strided, levels, only({x})), 14);
}

TEST(Access, ModuloWrapsAround) {
  EXPECT_EQ(distinct_elements(image_at(0, var("x") % 4, 0), levels, only({x})), 4);
  EXPECT_EQ(distinct_elements(image_at(0, var("x") / 4, 0), levels, only({x})), 4);
}

TEST(Access, FootprintsAreWholeCacheLines) {
  const Access one = image_at(var("y"), var("x"), 0);
  EXPECT_EQ(footprint(one, levels, only({}), x86).bytes, 64);
  EXPECT_EQ(footprint(one, levels, only({x}), x86).bytes, 14 * 64);  // one channel of 14 pixels
  const Access all = image_at(var("y"), var("x"), var("v"));
  EXPECT_EQ(footprint(all, levels, only({v}), x86).bytes, 64);
  EXPECT_EQ(footprint(all, levels, only({x, v}), x86).bytes, 14 * 64);
  EXPECT_EQ(footprint(all, levels, only({y, x, v}), x86).bytes, 56 * 14 * 64);
}

// Pieces of rows with gaps of less than a line between them are one stretch, which ends with the
// last element.
TEST(Access, RowsWithGapsOfLessThanALineAreOneStretch) {
  const Access one = image_at(var("y"), var("x"), 0);
  EXPECT_EQ(footprint(one, levels, only({x}), x86).runs, 1);  // 60 bytes between pixels
  EXPECT_EQ(footprint(one, levels, only({}), x86).lines_a_run, 1);
  EXPECT_EQ(footprint(one, levels, only({x}), {.bytes = 32, .way_bytes = 4096}).runs, 14);
}

TEST(Access, LinesAreTheMachines) {
  const CacheLevel neoverse = machine_by_name("Neoverse N1", {}).value().caches[0];
  EXPECT_EQ(lines_of(neoverse).sets(), 256);
  EXPECT_EQ(lines_of(neoverse).way_bytes, 16384);
  const Access one = image_at(var("y"), var("x"), 0);
  // Each line of 128 bytes has two pixels of 16 channels.
  EXPECT_EQ(footprint(one, levels, only({x}), {.bytes = 128, .way_bytes = 4096}).bytes, 7 * 128);
}

// Rows of 7 floats share cache lines if whole rows are touched.
TEST(Access, ShortRowsAreContiguousWhenTouchedFromEndToEnd) {
  const Buffer small{"s", Float32, {16, 7}, schedules::Scope::Argument};
  const std::vector<Level> loops = {make_level({}, "i", 0, 16, LoopKind::Serial),
                                    make_level({}, "j", 0, 7, LoopKind::Serial)};
  const Access access = make_access(small, {var("i"), var("j")}, loops);
  EXPECT_EQ(footprint(access, loops, only({0, 1}), x86).bytes, 7 * 64);  // 448 bytes
}

// 16 lines at steps of 2 KiB fall into 2 of the 64 sets of L1. They take as much room as 32 KiB of
// contiguous data.
TEST(Access, LinesAtStepsOfAPowerOfTwoShareSets) {
  const std::vector<Level> loops = {make_level({}, "i", 0, 16, LoopKind::Serial)};
  const auto aliased = [&](int64_t row, CacheLines lines = x86) {
    const Buffer rows{"b", Float32, {16, row}, schedules::Scope::Argument};
    return footprint(make_access(rows, {var("i"), 0}, loops), loops, only({0}), lines)
        .aliased_bytes;
  };
  EXPECT_EQ(aliased(512), 8 * 4096);
  EXPECT_EQ(aliased(1024), 16 * 4096);
  EXPECT_EQ(aliased(528), 0);
  // If a way has 16 KiB, the lines fall into 8 of 256 sets. Without a cache there are no sets.
  EXPECT_EQ(aliased(512, {.bytes = 64, .way_bytes = 16384}), 2 * 16384);
  EXPECT_EQ(aliased(512, {.bytes = 64, .way_bytes = 0}), 0);
}

TEST(Access, AlignmentIsOfEveryVector) {
  const std::vector<Level> loops = {make_level({}, "i", 0, 4, LoopKind::Serial),
                                    make_level({}, "v", 0, 16, LoopKind::Vector)};
  const auto aligned = [&](int64_t row, const Expr& index, double bytes = 64) {
    const Buffer rows{"b", Float32, {4, row}, schedules::Scope::Argument};
    return is_aligned(make_access(rows, {var("i"), index}, loops), loops, bytes);
  };
  EXPECT_TRUE(aligned(32, var("v")));
  EXPECT_TRUE(aligned(32, var("v") + 16));
  EXPECT_FALSE(aligned(32, var("v") + 1));
  EXPECT_FALSE(aligned(28, var("v")));
  EXPECT_FALSE(aligned(24, var("v")));
  EXPECT_TRUE(aligned(24, var("v"), 32));
  EXPECT_FALSE(aligned(28, var("v"), 32));
}

// A fused loop over pixels in rows of 7, in tiles of 6 pixels.
const Expr pixel = var("f") * 6 + var("p");
const std::vector<Level> fused = {make_level({}, "f", 0, 8, LoopKind::Serial),
                                  make_level({}, "p", 0, 6, LoopKind::Unrolled),
                                  make_level({}, "v", 0, 8, LoopKind::Vector)};

TEST(Access, DigitsOfOneNumberAreOneDimension) {
  const Buffer rows{"b", Float32, {4, 7, 7, 8}, schedules::Scope::Argument};
  const Access access = make_access(rows, {0, pixel / 7, pixel % 7, var("v")}, fused);
  EXPECT_EQ(access.extents[1], 1);
  EXPECT_EQ(access.extents[2], 49);
  EXPECT_FALSE(access.is_irregular);
  EXPECT_EQ(distinct_elements(access, fused, only({0, 1})), 48);
  EXPECT_EQ(footprint(access, fused, only({1, 2}), x86).bytes, 6 * 32);
  EXPECT_EQ(pattern(access, 2), Pattern::Contiguous);
  EXPECT_TRUE(is_aligned(access, fused, 32));
  // Quotients and remainders by another number than the length of a row stay two dimensions.
  EXPECT_EQ(make_access(rows, {0, pixel / 6, pixel % 6, 0}, fused).extents[1], 7);
}

TEST(Access, DigitsOfOneNumberTouchNoMoreThanItsValues) {
  const Buffer rows{"b", Float32, {14, 14, 8}, schedules::Scope::Argument};
  const Access access = make_access(rows, {pixel / 7 * 2, pixel % 7 * 2, var("v")}, fused);
  EXPECT_TRUE(access.is_irregular);
  EXPECT_EQ(distinct_elements(access, fused, only({1})), 6);
  EXPECT_EQ(footprint(access, fused, only({1, 2}), x86).bytes, 6 * 64);
  EXPECT_EQ(pattern(access, 2), Pattern::Contiguous);
  EXPECT_TRUE(is_aligned(access, fused, 32));
}

TEST(Access, DependenceIsByVariable) {
  const Access access = image_at(var("y"), var("x"), 0);
  EXPECT_TRUE(access.depends_on(x));
  EXPECT_FALSE(access.depends_on(v));
}

}  // namespace
}  // namespace tw::cost_model::facts
