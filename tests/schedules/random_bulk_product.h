// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random products with operands that TMA copies, in pipelines. The first operand is a matrix, a
// batch of matrices, or an image whose pixels are the rows. The second operand is contiguous along
// the terms or across them. Blocks do not divide the sizes.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "dsl/parse.h"
#include "schedules/schedule.h"
#include "schedules/space/space.h"
#include "tests/schedules/spaces.h"

namespace tw::schedules {

/// Returns the operands that TMA copies, in the order of the steps.
inline std::vector<std::string> tma_operands(const Schedule& schedule) {
  std::vector<std::string> operands;
  for (const Step& step : schedule.steps())
    if (const auto* bulk = std::get_if<Bulk>(&step)) operands.push_back(bulk->stage);
  return operands;
}

/// Samples a point in which TMA copies at least `operands` operands. Returns nullopt if there is
/// none in 2000 * operands^2 samples.
inline std::optional<Point> bulk_point(const Space& space, Random& random, int operands = 1) {
  for (int tries = 0; tries < 2000 * operands * operands; ++tries) {
    Point point = space.sample(random);
    if (tma_operands(space.schedule(point)).size() >= static_cast<size_t>(operands)) return point;
  }
  return std::nullopt;
}

struct BulkProductCase {
  dsl::Compute compute;
  Schedule schedule;
};

/// Adds a copy of the results to shared memory, with rows by columns or columns by rows. The
/// threads that copy them back are bound to the loop over rows or to that over columns.
inline Schedule with_staged_results(const Schedule& schedule, const std::string& row,
                                    Random& random) {
  const bool by_row = random.chance(0.5);
  const std::string first = by_row ? row : "n.1", second = by_row ? "n.1" : row;
  Schedule s = schedule.cache_result("c", {first, second});
  if (random.chance(0.5)) s = s.pad("c@c", second, 1 + random.below(4));
  return s.bind("c@c", random.chance(0.5) ? first : second);
}

inline BulkProductCase random_bulk_product(Random& random) {
  struct Type {
    const char *operand, *sum;
    int64_t lanes;  ///< elements of 16 bytes
  };
  const auto [type, sum, lanes] =
      random.pick(std::vector<Type>{{"f32", "f32", 4}, {"f16", "f32", 8}, {"i8", "i32", 16}});
  const auto up_to = [&](int64_t n) { return 1 + random.below(n); };
  const int64_t k = lanes * up_to(8), n = random.chance(0.5) ? 32 : lanes * up_to(3);

  enum Rows { Matrix, Batch, PixelsLast, ChannelsLast };
  const auto rows = random.pick(std::vector<Rows>{Matrix, Matrix, Batch, PixelsLast, ChannelsLast});
  const int64_t block_rows = rows == PixelsLast || random.chance(0.5) ? 16 : 8, block_columns = 16;
  const int64_t block_terms = lanes * (int64_t{1} << random.below(3));
  const bool has_batch = rows == Batch, has_pixels = rows == PixelsLast || rows == ChannelsLast;
  const bool terms_last = random.chance(0.5);  // in the second operand
  const int64_t m = 1 + random.below(40), batch = 1 + random.below(3);
  // All rows of a block are pixels of one image. The contiguous dimension is a multiple of 16
  // bytes.
  const int64_t images = has_pixels && random.chance(0.5) ? 2 : 1;
  const int64_t height = images == 2 ? 2 * block_rows / 8 : lanes, width = images == 2 ? 8 : 5;
  const std::string of_b = has_batch ? "b, " : "",
                    in_b = has_batch ? fmt::format("{}, ", batch) : "";
  std::string a_shape = fmt::format("{}{}, {}", in_b, m, k), a_at = of_b + "m, k";
  std::string axes = fmt::format("m={}, n={}", m, n);
  if (has_batch) axes = fmt::format("b={}, ", batch) + axes;
  if (has_pixels) {
    axes = fmt::format("i={}, y={}, x={}, n={}", images, height, width, n);
    a_shape = rows == PixelsLast ? fmt::format("{}, {}, {}, {}", images, k, height, width)
                                 : fmt::format("{}, {}, {}, {}", images, height, width, k);
    a_at = rows == PixelsLast ? "i, k, y, x" : "i, y, x, k";
  }
  const std::string text = fmt::format(
      "input a: {0}[{1}]\ninput w: {0}[{2}{3}]\nc: {4}[{5}] = sum(k={6}) {4}(a[{7}]) * "
      "{4}(w[{8}{9}])",
      type, a_shape, in_b, terms_last ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n),
      sum, axes, k, a_at, of_b, terms_last ? "n, k" : "k, n");
  const auto compute = dsl::parse_compute(text);
  EXPECT_TRUE(compute) << text << "\n" << compute.error().message;

  Schedule s(*compute);
  std::string row = "m";
  if (has_pixels) {
    s = s.fuse("c", "i", "y").fuse("c", "i*y", "x");
    row = "i*y*x";
  }
  s = s.split("c", row, block_rows).split("c", "n", block_columns).split("c", "k", block_terms);
  std::vector<std::string> terms = {"k.1"}, outside;
  // In some cases the block of the reduction is split further, so that boxes have three dimensions.
  const bool in_parts = rows != PixelsLast && block_terms > lanes && random.chance(0.4);
  if (in_parts) {
    s = s.split("c", "k.1", lanes);
    terms = {"k.1.0", "k.1.1"};
  }
  if (has_batch) outside = {"b"};
  outside.insert(outside.end(), {row + ".0", "n.0", "k.0"});
  std::vector<std::string> order = outside;
  order.insert(order.end(), {row + ".1", "n.1"});
  order.insert(order.end(), terms.begin(), terms.end());
  s = s.reorder("c", order).cache_write("c", "n.0");
  const auto loops_of = [&](const std::string& across, bool contiguous_terms) {
    std::vector<std::string> loops = terms;
    loops.insert(contiguous_terms ? loops.end() - 1 : loops.end(), across);
    return loops;
  };
  s = s.cache_operand("c", 1, "k.0", loops_of(row + ".1", rows != PixelsLast))
          .cache_operand("c", 2, "k.0", loops_of("n.1", terms_last));
  outside.pop_back();
  for (const std::string& loop : outside) s = s.parallel("c", loop);
  s = s.bind("c", row + ".1").bind("c", "n.1");
  const int64_t depth = 2 + random.below(6);
  const int64_t only = random.below(4);  // the operand that threads copy: 0 or 1, else none
  const std::vector<std::string> copies = {"a@c", "w@c"}, across = {row + ".1", "n.1"};
  for (size_t i = 0; i < copies.size(); ++i) {
    s = s.pipeline(copies[i], depth);
    s = static_cast<int64_t>(i) == only ? s.bind(copies[i], across[i]) : s.bulk(copies[i]);
  }
  if (only >= 2 && k > block_terms && random.chance(0.5)) {
    s = s.specialise("c");
    if (random.chance(0.6)) s = s.persist("c");
    if (random.chance(0.3)) s = s.launch_bounds("c", 2);
  }
  if (random.chance(0.5)) s = with_staged_results(s, row + ".1", random);
  return {*compute, s};
}

}  // namespace tw::schedules
