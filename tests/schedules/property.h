// SPDX-License-Identifier: Apache-2.0
#pragma once
// The property that this module must have: a random compute on small odd shapes gives the right
// elements under random legal steps.

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "tests/schedules/agreement.h"
#include "tests/schedules/random_compute.h"
#include "tests/schedules/random_schedule.h"

namespace tw::schedules {

struct Tally {
  int64_t cases = 0, steps = 0, legal = 0;
  int64_t unproved = 0;                  ///< steps that fail for want of a proof
  std::map<std::string, int64_t> kinds;  ///< legal steps by name
};

/// Makes random steps. Appends to the schedule those that leave its program legal, and counts all
/// of them in `tally`.
inline Schedule random_schedule(Random& random, Schedule schedule, Tally& tally,
                                Favour favour = Favour::Nothing) {
  const int64_t count = (favour == Favour::Threads ? 10 : 2) + random.below(14);
  for (int64_t i = 0; i < count; ++i) {
    const Step step = StepMaker(random, schedule.nest(), favour)
                          .make(static_cast<double>(i) / static_cast<double>(count));
    ++tally.steps;
    const Schedule next = schedule.then(step);
    if (next.error()) continue;
    if (const auto program = next.program(); !program) {
      tally.unproved += program.error().message.find("not proved") != std::string::npos;
      continue;
    }
    ++tally.legal;
    ++tally.kinds[std::visit([](const auto& s) { return std::string(s.name); }, step)];
    schedule = next;
  }
  return schedule;
}

inline Schedule random_schedule(Random& random, const dsl::Compute& compute, Tally& tally,
                                Favour favour = Favour::Nothing) {
  return random_schedule(random, Schedule(compute), tally, favour);
}

inline std::optional<std::string> failure(const Schedule& schedule, double tolerance) {
  const auto program = schedule.program();
  if (!program) return program.error().message;
  return disagreement(schedule.compute(), *program, 7, tolerance);
}

/// Drops steps one by one, as long as the schedule stays legal and computes wrong elements.
inline Schedule shrink(Schedule schedule, double tolerance) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t drop = schedule.steps().size(); drop > 0 && !smaller; --drop) {
      std::vector<Step> steps = schedule.steps();
      steps.erase(steps.begin() + static_cast<ptrdiff_t>(drop - 1));
      const Schedule shorter = Schedule(schedule.compute()).then(steps);
      if (shorter.error() || !shorter.program() || !failure(shorter, tolerance)) continue;
      schedule = shorter;
      smaller = true;
    }
  }
  return schedule;
}

inline std::string report(const Schedule& schedule, double tolerance) {
  const auto program = schedule.program();
  return fmt::format("{}\n{}\n{}\n{}", dsl::to_text(schedule.compute()), schedule.to_string(),
                     program ? to_string(*program) : "",
                     failure(schedule, tolerance).value_or("agrees"));
}

/// Tests `cases` random computes with random schedules. Reports up to three failures, each with its
/// schedule shortened by shrink().
inline Tally run_cases(uint64_t first_seed, int64_t cases) {
  Tally tally;
  int failures = 0;
  for (int64_t i = 0; i < cases && failures < 3; ++i) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(i);
    Random random(seed);
    const auto [declared, tolerance] = random_compute(random);
    const dsl::Compute compute = seed % 4 == 0 ? in_doubles(declared) : declared;
    const Schedule plain(compute);
    if (failure(plain, tolerance)) {
      ADD_FAILURE() << "seed " << seed << ", no steps\n" << report(plain, tolerance);
      ++failures;
      continue;
    }
    const Schedule schedule = random_schedule(random, compute, tally);
    ++tally.cases;
    const auto replayed = parse_schedule(compute, schedule.to_string());
    EXPECT_TRUE(replayed && replayed->to_string() == schedule.to_string()) << schedule.to_string();
    if (!failure(schedule, tolerance)) continue;
    ADD_FAILURE() << "seed " << seed << "\n" << report(shrink(schedule, tolerance), tolerance);
    ++failures;
  }
  return tally;
}

inline void expect_substance(const Tally& tally) {
  // At least half of the steps tried must be legal, each kind of step must occur, and at most
  // one step in 200 may fail for want of a proof. Random steps do not produce some kinds, which are
  // tested elsewhere: tensor tiles and swizzles in random_tensor_product.h, bulk copies,
  // persistent blocks and launch bounds in random_bulk_product.h, sliding windows in
  // store_at_test.cpp, prepared stages in random_constants.h, Winograd's algorithm in
  // winograd_test.cpp, packed factors in pack_factors_test.cpp, and padded factors in
  // pad_factors_test.cpp.
  EXPECT_GE(tally.legal * 2, tally.steps) << tally.legal << " of " << tally.steps;
  EXPECT_LE(tally.unproved * 200, tally.legal);
  auto kinds = tally.kinds;
  kinds.erase("prepare");  // of a few computes at random
  EXPECT_EQ(kinds.size(), std::variant_size_v<Step> - 11);
  for (const auto& [kind, count] : kinds) EXPECT_GE(count * 100, tally.cases) << kind;
}

}  // namespace tw::schedules
