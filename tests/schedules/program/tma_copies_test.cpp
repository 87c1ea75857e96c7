// SPDX-License-Identifier: Apache-2.0
// Tests of the step bulk: which copies are boxes, which parameters the copy engine gets, and which
// copies are refused.

#include "schedules/program/tma_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "dsl/parse.h"
#include "schedules/program/legality.h"
#include "schedules/program/specialised.h"
#include "schedules/program/threads.h"
#include "tests/nightly.h"
#include "tests/schedules/agreement.h"
#include "tests/schedules/random_bulk_product.h"

namespace tw::schedules {
namespace {

using testing::HasSubstr;

struct Sizes {
  int64_t m = 20, n = 16, k = 40;
  int64_t block_rows = 8, block_columns = 8, block_terms = 8;
  const char* type = "f32";
};

/// Returns the product a[m, k] * b[k, n] in blocks, with operands that the step bulk can be applied
/// to.
Schedule staged_product(const Sizes& z = {}, int64_t depth = 3) {
  const auto compute = dsl::parse_compute(fmt::format(R"(input a: {3}[{0}, {2}]
weight b: {3}[{2}, {1}]
c: {3}[m={0}, n={1}] = sum(k={2}) a[m, k] * b[k, n])",
                                                      z.m, z.n, z.k, z.type));
  return Schedule(*compute)
      .split("c", "m", z.block_rows)
      .split("c", "n", z.block_columns)
      .split("c", "k", z.block_terms)
      .reorder("c", {"m.0", "n.0", "k.0", "m.1", "n.1", "k.1"})
      .cache_write("c", "n.0")
      .cache_operand("c", 1, "k.0", {"m.1", "k.1"})
      .cache_operand("c", 2, "k.0", {"k.1", "n.1"})
      .parallel("c", "m.0")
      .parallel("c", "n.0")
      .bind("c", "m.1")
      .bind("c", "n.1")
      .pipeline("a@c", depth)
      .pipeline("b@c", depth);
}

Schedule bulk_product(const Sizes& z = {}, int64_t depth = 3) {
  return staged_product(z, depth).bulk("a@c").bulk("b@c");
}

std::vector<TmaCopy> copies_of(const Program& program) {
  return tma_copies(program, program.phases[0]).value();
}

/// Returns the source and, for each dimension from the innermost, "extent/stride/box first".
std::string text_of(const TmaCopy& copy) {
  std::string text = copy.source;
  for (const TmaDimension& d : copy.dimensions)
    text += fmt::format(", {}/{}/{} {}", d.extent, d.stride, d.box, dsl::to_string(d.first));
  return text;
}

std::vector<std::string> boxes_of(const Schedule& schedule) {
  const auto program = schedule.program();
  EXPECT_TRUE(program) << program.error().message;
  std::vector<std::string> texts;
  if (!program) return texts;
  EXPECT_EQ(disagreement(schedule.compute(), *program), std::nullopt) << to_string(*program);
  for (const TmaCopy& copy : copies_of(*program)) texts.push_back(text_of(copy));
  return texts;
}

TEST(BulkCopies, AreBoxesOfATensor) {
  EXPECT_THAT(boxes_of(bulk_product()),
              testing::ElementsAre("a, 40/1/8 k.0 * 8, 20/40/8 m.0 * 8",
                                   "b, 16/1/8 n.0 * 8, 40/16/8 k.0 * 8",
                                   "a, 40/1/8 k.0 * 8 + 16, 20/40/8 m.0 * 8",
                                   "b, 16/1/8 n.0 * 8, 40/16/8 k.0 * 8 + 16"));
}

TEST(BulkCopies, WhatIsOutsideOfATensorIsZeros) {
  // Rows, columns and terms leave 5, 4 and 4 elements beyond whole blocks of 8.
  EXPECT_THAT(boxes_of(bulk_product({.m = 13, .n = 20, .k = 44})),
              testing::ElementsAre("a, 44/1/8 k.0 * 8, 13/44/8 m.0 * 8",
                                   "b, 20/1/8 n.0 * 8, 44/20/8 k.0 * 8",
                                   "a, 44/1/8 k.0 * 8 + 16, 13/44/8 m.0 * 8",
                                   "b, 20/1/8 n.0 * 8, 44/20/8 k.0 * 8 + 16"));
}

TEST(BulkCopies, ComputeWhatTheProductMeans) {
  for (const int64_t depth : {2, 3, 4})
    for (const int64_t trips : {1, 2, 3, 4, 5, 9})
      for (const int64_t less : {0, 4}) {
        const Schedule schedule = bulk_product({.m = 11, .k = 8 * trips - less}, depth);
        const auto program = schedule.program();
        ASSERT_TRUE(program) << program.error().message;
        EXPECT_EQ(disagreement(schedule.compute(), *program), std::nullopt) << to_string(*program);
      }
}

TEST(BulkCopies, OfABatchHaveADimensionForIt) {
  const auto compute = dsl::parse_compute(R"(input a: f32[3, 11, 36]
weight b: f32[3, 36, 16]
c: f32[i=3, m=11, n=16] = sum(k=36) a[i, m, k] * b[i, k, n])");
  const Schedule schedule = Schedule(*compute)
                                .split("c", "m", 8)
                                .split("c", "k", 8)
                                .reorder("c", {"i", "m.0", "k.0", "m.1", "n", "k.1"})
                                .cache_write("c", "m.0")
                                .cache_operand("c", 1, "k.0", {"m.1", "k.1"})
                                .cache_operand("c", 2, "k.0", {"k.1", "n"})
                                .pipeline("a@c", 2)
                                .pipeline("b@c", 2)
                                .bulk("a@c")
                                .bulk("b@c")
                                .parallel("c", "i")
                                .bind("c", "m.1")
                                .bind("c", "n");
  EXPECT_THAT(boxes_of(schedule),
              testing::ElementsAre("a, 36/1/8 0, 11/36/8 m.0 * 8, 3/396/1 i",
                                   "b, 16/1/16 0, 80/16/8 i * 36",
                                   "a, 36/1/8 k.0 * 8 + 8, 11/36/8 m.0 * 8, 3/396/1 i",
                                   "b, 16/1/16 0, 36/16/8 k.0 * 8 + 8, 3/576/1 i"));
}

/// Returns a 1x1 convolution as a product whose rows are the pixels. The image has the dimensions
/// `shape` and is read at the indices `at`.
Schedule pixels(const char* shape, const char* at, bool terms_last, int64_t images) {
  const auto compute = dsl::parse_compute(fmt::format(R"(input a: f32[{1}]
weight w: f32[16, 8]
c: f32[i={0}, y=4, x=8, n=8] = sum(k=16) a[{2}] * w[k, n])",
                                                      images, shape, at));
  EXPECT_TRUE(compute) << compute.error().message;
  std::vector<std::string> loops = {"k.1", "i*y*x.1"};
  if (terms_last) std::swap(loops[0], loops[1]);
  return Schedule(*compute)
      .fuse("c", "i", "y")
      .fuse("c", "i*y", "x")
      .split("c", "i*y*x", 16)
      .split("c", "k", 4)
      .reorder("c", {"i*y*x.0", "k.0", "i*y*x.1", "n", "k.1"})
      .cache_write("c", "i*y*x.0")
      .cache_operand("c", 1, "k.0", loops)
      .cache_operand("c", 2, "k.0", {"k.1", "n"})
      .pipeline("a@c", 2)
      .pipeline("w@c", 2)
      .bulk("a@c")
      .bind("c", "i*y*x.1")
      .bind("c", "n")
      .bind("w@c", "n");
}

TEST(BulkCopies, FusedPixelsAreOneDimension) {
  EXPECT_EQ(boxes_of(pixels("3, 4, 8, 16", "i, y, x, k", true, 3)).front(),
            "a, 16/1/4 0, 96/16/16 i*y*x.0 * 16");
  EXPECT_EQ(boxes_of(pixels("1, 16, 4, 8", "i, k, y, x", false, 1)).front(),
            "a, 32/1/16 i*y*x.0 * 16, 16/32/4 0");
  EXPECT_EQ(boxes_of(pixels("3, 16, 4, 8", "i, k, y, x", false, 3)).front(),
            "a, 47/1/16 i*y*x.0 * 16 % 32, 48/32/4 i*y*x.0 * 16 / 32 * 16");
}

/// Returns a 3 x 3 convolution of two padded images with 6 x 6 results. A task computes a rectangle
/// of `rows` by `columns` pixels of both images. One loop runs over the taps and the blocks of
/// channels.
Schedule padded_pixels(int64_t rows, int64_t columns, int64_t stride = 1) {
  const auto compute = dsl::parse_compute(fmt::format(R"(input a: f32[2, {0}, {0}, 16]
weight w: f32[8, 3, 3, 16]
c: f32[i=2, y=6, x=6, n=8] = sum(r=3, s=3, k=16) select(0 <= y * {1} + r - 1 && y * {1} + r - 1 < {0} && 0 <= x * {1} + s - 1 && x * {1} + s - 1 < {0}, a[i, y * {1} + r - 1, x * {1} + s - 1, k], 0.0) * w[n, r, s, k])",
                                                      6 * stride, stride));
  EXPECT_TRUE(compute) << compute.error().message;
  const std::vector<std::string> names = {"i.1*y.1*x.1.0.0", "i.1*y.1*x.1.0.1", "i.1*y.1*x.1.1"};
  return Schedule(*compute)
      .split("c", "i", 2)
      .split("c", "y", rows)
      .split("c", "x", columns)
      .split("c", "k", 8)
      .reorder("c", {"i.0", "y.0", "x.0", "i.1", "y.1", "x.1", "r", "s", "k.0", "n", "k.1"})
      .fuse("c", "i.0", "y.0")
      .fuse("c", "i.0*y.0", "x.0")
      .fuse("c", "i.1", "y.1")
      .fuse("c", "i.1*y.1", "x.1")
      .fuse("c", "r", "s")
      .fuse("c", "r*s", "k.0")
      .split("c", "i.1*y.1*x.1", 8)
      .reorder("c", {"i.0*y.0*x.0", "r*s*k.0", "i.1*y.1*x.1.0", "i.1*y.1*x.1.1", "n", "k.1"})
      .cache_write("c", "i.0*y.0*x.0")
      .cache_operand("c", 1, "r*s*k.0", {"i.1*y.1*x.1.0", "i.1*y.1*x.1.1", "k.1"})
      .cache_operand("c", 2, "r*s*k.0", {"n", "k.1"})
      .fuse("a@c", "i.1*y.1*x.1.0", "i.1*y.1*x.1.1")
      .split("a@c", "i.1*y.1*x.1.0*i.1*y.1*x.1.1", columns)
      .split("a@c", "i.1*y.1*x.1.0*i.1*y.1*x.1.1.0", rows)
      .pipeline("a@c", 2)
      .pipeline("w@c", 2)
      .bulk("a@c")
      .bulk("w@c")
      .parallel("c", "i.0*y.0*x.0")
      .bind("c", "i.1*y.1*x.1.0")
      .bind("c", "i.1*y.1*x.1.1")
      .bind("c", "n");
}

TEST(BulkCopies, PixelsOfPaddedImagesAreRectangles) {
  // The first tap begins one pixel before the image in y and x. Later taps may begin before it,
  // too.
  EXPECT_THAT(boxes_of(padded_pixels(2, 2)),
              testing::ElementsAre("a, 16/1/8 0, 6/16/2 i.0*y.0*x.0 % 3 * 2 - 1, "
                                   "6/96/2 i.0*y.0*x.0 / 3 * 2 - 1, 2/576/2 0",
                                   "w, 144/1/8 0, 8/144/8 0",
                                   "a, 16/1/8 (r*s*k.0 + 1) % 2 * 8, "
                                   "6/16/2 i.0*y.0*x.0 % 3 * 2 + (r*s*k.0 + 1) / 2 % 3 - 1, "
                                   "6/96/2 i.0*y.0*x.0 / 3 * 2 + (r*s*k.0 + 1) / 2 / 3 - 1, "
                                   "2/576/2 0",
                                   "w, 144/1/8 r*s*k.0 * 8 + 8, 8/144/8 0"));
}

TEST(BulkCopies, PixelsOfAStrideAreRectanglesOfItsPhases) {
  // With stride 2, six of 12 pixels are even and six are odd; these are the phases. Along a row,
  // the phase is part of the index of channels, whose dimension is as long as two pixels. Along a
  // column, the phase is a dimension of its own. The phases of the first tap are constants, and its
  // box has the same dimensions as those of later taps.
  const auto boxes = boxes_of(padded_pixels(2, 2, 2));
  ASSERT_EQ(boxes.size(), 4u);
  EXPECT_EQ(boxes[0],
            "a, 32/1/8 16, 6/32/2 i.0*y.0*x.0 % 3 * 2 - 1, 2/192/1 1, "
            "6/384/2 i.0*y.0*x.0 / 3 * 2 - 1, 2/2304/2 0");
  EXPECT_EQ(boxes[2],
            "a, 32/1/8 (r*s*k.0 + 1) % 2 * 8 + ((r*s*k.0 + 1) / 2 % 3 + 1) % 2 * 16, "
            "6/32/2 i.0*y.0*x.0 % 3 * 2 + ((r*s*k.0 + 1) / 2 % 3 + 1) / 2 - 1, "
            "2/192/1 ((r*s*k.0 + 1) / 2 / 3 + 1) % 2, "
            "6/384/2 i.0*y.0*x.0 / 3 * 2 + ((r*s*k.0 + 1) / 2 / 3 + 1) / 2 - 1, 2/2304/2 0");
  for (const int64_t columns : {2, 4})
    EXPECT_THAT(boxes_of(padded_pixels(4, columns, 2))[2],
                HasSubstr(fmt::format(", 6/32/{} ", columns)));
}

TEST(BulkCopies, RectanglesMayReachOutsideOfImages) {
  // Four does not divide six, so that rectangles reach outside of images. The loops over a block's
  // pixels are also split at 8, which is neither a row of these rectangles nor always a whole
  // rectangle.
  for (const auto& [rows, columns] : {std::pair(4, 4), std::pair(2, 4), std::pair(4, 2)}) {
    const auto boxes = boxes_of(padded_pixels(rows, columns));
    ASSERT_EQ(boxes.size(), 4u);
    EXPECT_THAT(boxes[2], HasSubstr(fmt::format("6/16/{} ", columns)));
    EXPECT_THAT(boxes[2], HasSubstr(fmt::format("6/96/{} ", rows)));
  }
}

TEST(BulkCopies, RandomProductsAgree) {
  const uint64_t cases = cases_of<uint64_t>(130, 400);
  std::map<size_t, uint64_t> ranks;
  for (uint64_t seed = 1; seed <= cases; ++seed) {
    Random random(seed);
    const auto [compute, schedule] = random_bulk_product(random);
    const auto program = schedule.program();
    ASSERT_TRUE(program) << dsl::to_text(compute) << schedule.to_string() << "\n"
                         << program.error().message;
    ASSERT_EQ(disagreement(compute, *program), std::nullopt) << to_string(*program);
    for (const TmaCopy& copy : copies_of(*program)) ++ranks[copy.dimensions.size()];
  }
  EXPECT_GE(ranks[2] * 7, cases);
  EXPECT_GE(ranks[3] * 20, cases);
}

TEST(BulkCopies, HaveABarrierForEachGroup) {
  for (const auto& [depth, groups] : {std::pair(2, 2), std::pair(3, 4), std::pair(4, 8)}) {
    const Program program = bulk_product({}, depth).program().value();
    EXPECT_EQ(tma_barriers(*program.phases[0].body), groups);
    EXPECT_EQ(shared_bytes(*program.phases[0].body), depth * 2 * 8 * 8 * 4 + 2 * groups * 8);
  }
  EXPECT_EQ(tma_barriers(*staged_product().program()->phases[0].body), 0);
}

/// Returns "legal", or the first line of the reason why the schedule is illegal. The error may come
/// from the last step or from lowering.
std::string why_not_bulk(const Schedule& schedule, const Limits& limits = {}) {
  const auto program = schedule.program(limits);
  return program ? "legal" : program.error().message.substr(0, program.error().message.find('\n'));
}

TEST(BulkCopies, SayWhyNot) {
  EXPECT_EQ(why_not_bulk(bulk_product()), "legal");
  EXPECT_EQ(why_not_bulk(staged_product().bulk("c")),
            "[bulk] 'c' holds no operand: cache_operand makes stages that do");
  EXPECT_EQ(why_not_bulk(staged_product().bulk("a@c").bulk("a@c")),
            "[bulk] loop 'm.1' is unrolled, vectorized, bound or of a box already");
  EXPECT_EQ(why_not_bulk(staged_product().bind("a@c", "k.1").bulk("a@c")),
            "[bulk] loop 'k.1' is unrolled, vectorized, bound or of a box already");
  EXPECT_EQ(why_not_bulk(staged_product({.k = 600, .block_terms = 300}).bulk("a@c")),
            "[bulk] loop 'k.1' has 300 iterations, a box has at most 256 in a dimension");
  EXPECT_EQ(why_not_bulk(staged_product()
                             .split("a@c", "m.1", 4)
                             .split("a@c", "m.1.0", 1)
                             .split("a@c", "k.1", 4)
                             .split("a@c", "k.1.1", 2)
                             .split("a@c", "k.1.0", 1)
                             .bulk("a@c")),
            "[bulk] 'a@c' has 7 loops, a box has at most 5 dimensions: fuse some");
  EXPECT_EQ(why_not_bulk(bulk_product(), {.gpu_architecture = 89}),
            "[bulk] boxes are copied by sm_90 and newer, the target is sm_89");
  EXPECT_EQ(why_not_bulk(bulk_product(), {.gpu_architecture = 90}), "legal");
  EXPECT_EQ(why_not_bulk(bulk_product({.k = 42})),
            "[bulk] 'a' has a stride of 168 bytes along a@c.m.1, which is no multiple of 16");
  EXPECT_EQ(why_not_bulk(bulk_product({.block_columns = 2})),
            "[bulk] a row of the box, along 'b@c.n.1', has 8 bytes, no multiple of 16");
  EXPECT_EQ(why_not_bulk(bulk_product({.block_rows = 2})),
            "[bulk] the box begins at multiples of 64 bytes of 'a@c', not of 128");
  EXPECT_EQ(why_not_bulk(staged_product().pad("a@c", "m.1", 4).bulk("a@c")),
            "[bulk] the box begins at multiples of 272 bytes of 'a@c', not of 128");
  EXPECT_EQ(why_not_bulk(staged_product().pad("a@c", "k.1", 4).bulk("a@c")),
            "[bulk] the box has gaps in 'a@c'");
}

/// Returns a product with producer warps, in which the threads that compute are whole warps.
Schedule specialised_product() { return bulk_product({.block_columns = 16}).specialise("c"); }

TEST(Specialise, SplitsTheWorkOfAPhase) {
  const auto program = specialised_product().program();
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_THAT(to_string(*program), HasSubstr("phase 0 c, specialised, tasks 3"));
  EXPECT_EQ(disagreement(specialised_product().compute(), *program), std::nullopt);
  const SpecialisedBody parts = specialised_body(program->phases[0]);
  const auto count = [](const Block& body, auto&& is_it) {
    int found = 0;
    for_each(body, [&](const Stmt& stmt) { found += is_it(stmt); });
    return found;
  };
  const auto is_box = [](const Stmt& s) {
    const Loop* loop = s.as<Loop>();
    return loop && loop->kind == LoopKind::Bulk;
  };
  const auto is_barrier = [](const Stmt& s) { return s.as<Barrier>() != nullptr; };
  const auto is_commit = [](const Stmt& s) { return s.as<Commit>() != nullptr; };
  const auto is_wait = [](const Stmt& s) { return s.as<Wait>() != nullptr; };
  EXPECT_EQ(count(parts.producer, is_box), 8);  // four of two loops
  EXPECT_EQ(count(parts.producer, is_barrier), 1);
  EXPECT_EQ(count(parts.producer, is_commit), 2);
  EXPECT_EQ(count(parts.producer, is_wait), 0);
  EXPECT_FALSE(has_threads(parts.producer));
  EXPECT_EQ(count(parts.consumer, is_box), 0);
  EXPECT_EQ(count(parts.consumer, is_barrier), 0);
  EXPECT_EQ(count(parts.consumer, is_commit), 2);
  EXPECT_EQ(count(parts.consumer, is_wait), 1);
  EXPECT_EQ(threads_of(parts.consumer), 128);
}

TEST(Specialise, SaysWhyNot) {
  const Sizes whole{.block_columns = 16};
  EXPECT_EQ(why_not_bulk(specialised_product()), "legal");
  EXPECT_EQ(why_not_bulk(specialised_product().specialise("c")),
            "[specialise] 'c' is specialised already");
  EXPECT_EQ(why_not_bulk(bulk_product(whole).specialise("a@c")),
            "[specialise] stage 'a@c' is computed inside another");
  EXPECT_EQ(why_not_bulk(staged_product(whole).bulk("a@c").bind("b@c", "n.1").specialise("c")),
            "[specialise] 'b@c' is copied by threads: bulk copies leave them free");
  EXPECT_EQ(why_not_bulk(specialised_product(), {.threads = 255}),
            "[specialise] 128 threads, expected whole warps, and room for 128 more");
  EXPECT_EQ(
      why_not_bulk(
          bulk_product({.block_rows = 4, .block_columns = 4, .block_terms = 16}).specialise("c")),
      "[specialise] 16 threads, expected whole warps, and room for 128 more");
  EXPECT_EQ(why_not_bulk(specialised_product(), {.shared_bytes = 3 * (8 * 8 + 8 * 16) * 4 + 32}),
            "[specialise] 2368 bytes between threads, with their barriers, at most 2336");
  const auto compute = dsl::parse_compute(R"(input a: f32[8, 16]
c: f32[m=8] = a[m, 0] * 2.0)");
  EXPECT_EQ(why_not_bulk(Schedule(*compute).specialise("c")),
            "[specialise] there is no pipeline outside of other loops");
}

TEST(LaunchBounds, SayHowManyBlocksMustFit) {
  const Program program = specialised_product().launch_bounds("c", 2).program().value();
  EXPECT_EQ(program.phases[0].resident_blocks, 2);
  EXPECT_THAT(to_string(program), HasSubstr("phase 0 c, specialised, 2 blocks at once, tasks "));
  EXPECT_NE(hash(program), hash(specialised_product().program().value()));
}

TEST(LaunchBounds, SaysWhyNot) {
  const auto why = [](const Schedule& schedule) { return why_not_bulk(schedule); };
  EXPECT_EQ(why(specialised_product().launch_bounds("c", 2)), "legal");
  EXPECT_EQ(why(specialised_product().launch_bounds("c", 2).launch_bounds("c", 3)),
            "[launch_bounds] 'c' has launch bounds already");
  for (const int64_t blocks : {1, 33})
    EXPECT_EQ(why(specialised_product().launch_bounds("c", blocks)),
              fmt::format("[launch_bounds] a multiprocessor runs 2 to 32 blocks at once, not {}",
                          blocks));
  EXPECT_EQ(
      why_not_bulk(specialised_product().launch_bounds("c", 3),
                   {.resident_threads = 767, .is_gpu = true}),
      "[launch_bounds] 3 blocks of 256 threads, but a multiprocessor runs at most 767 threads "
      "at once");
  EXPECT_EQ(why(specialised_product().launch_bounds("a@c", 2)),
            "[launch_bounds] stage 'a@c' is computed inside another");
}

TEST(BulkCopies, OfPipelinesAlone) {
  const auto compute = dsl::parse_compute(R"(input a: f32[8, 16]
c: f32[m=8] = sum(k=16) a[m, k])");
  const Schedule schedule = Schedule(*compute).split("c", "k", 4).reorder("c", {"k.0", "m", "k.1"});
  const Schedule copied = schedule.cache_operand("c", 1, "k.0", {"m", "k.1"});
  EXPECT_EQ(why_not_bulk(copied.bulk("a@c")),
            "[bulk] 'a@c' is copied where it is used: pipeline it first");
  EXPECT_EQ(why_not_bulk(copied.pipeline("a@c", 2).bulk("a@c")),
            "[bulk] a box is one asynchronous copy, or zeros in its place");
}

TEST(BulkCopies, NeedNeighboursInMemory) {
  const auto compute = dsl::parse_compute(R"(input a: f32[16, 32]
weight b: f32[16, 32]
c: f32[m=32, n=32] = sum(k=16) a[k, m] * b[k, n])");
  const Schedule schedule = Schedule(*compute)
                                .split("c", "k", 8)
                                .split("c", "m", 8)
                                .reorder("c", {"m.0", "k.0", "m.1", "n", "k.1"})
                                .cache_write("c", "m.0")
                                .cache_operand("c", 1, "k.0", {"m.1", "k.1"})
                                .pipeline("a@c", 2)
                                .bulk("a@c")
                                .bind("c", "m.1")
                                .bind("c", "n");
  EXPECT_EQ(why_not_bulk(schedule),
            "[bulk] neighbours along 'a@c.k.1' are 32 elements apart in 'a'");
}

TEST(BulkCopies, PaddingInsideOfAFusedLoopIsNoBound) {
  const auto compute = dsl::parse_compute(R"(input a: f32[1, 6, 6, 32]
weight w: f32[3, 32, 8]
c: f32[y=6, x=6, n=8] = sum(r=3, k=32) select(0 <= x + r - 1 && x + r - 1 < 6, a[0, y, x + r - 1, k], 0.0) * w[r, k, n])");
  ASSERT_TRUE(compute) << compute.error().message;
  const auto with = [&](bool fused) {
    Schedule s(*compute);
    if (fused) s = s.fuse("c", "y", "x").split("c", "y*x", 12);
    s = s.split("c", "k", 16);
    const std::vector<std::string> rows =
        fused ? std::vector<std::string>{"y*x.1"} : std::vector<std::string>{"x"};
    return s.reorder("c", {fused ? "y*x.0" : "y", "r", "k.0", rows[0], "n", "k.1"})
        .cache_write("c", fused ? "y*x.0" : "y")
        .cache_operand("c", 1, "k.0", {rows[0], "k.1"})
        .cache_operand("c", 2, "k.0", {"k.1", "n"})
        .pipeline("a@c", 2)
        .pipeline("w@c", 2)
        .bulk("w@c")
        .bind("c", rows[0])
        .bind("c", "n");
  };
  // A box has a row of the image, and begins before the image or ends after it for some taps.
  EXPECT_THAT(boxes_of(with(false).bulk("a@c")).front(), "a, 32/1/16 0, 6/32/6 r - 1, 6/192/1 y");
  EXPECT_THAT(why_not_bulk(with(true).bulk("a@c")),
              HasSubstr("does not bound the index of one loop"));
}

}  // namespace
}  // namespace tw::schedules
