// SPDX-License-Identifier: Apache-2.0
// Tests random computes with random legal schedules on small odd shapes. The interpreter of
// programs and the object code must agree; for some cases, since it is slow to build, also the C
// under sanitizers.

#include <gtest/gtest.h>

#include "schedules/schedule.h"
#include "tests/codegen/runs.h"
#include "tests/nightly.h"
#include "tests/schedules/agreement.h"
#include "tests/schedules/random_compute.h"
#include "tests/schedules/random_constants.h"
#include "tests/schedules/random_schedule.h"

namespace tw::codegen {
namespace {

using schedules::Schedule;

Schedule random_schedule(Random& random, const dsl::Compute& compute) {
  Schedule schedule(compute);
  const int64_t count = 2 + random.below(14);
  for (int64_t i = 0; i < count; ++i) {
    const double progress = static_cast<double>(i) / static_cast<double>(count);
    const Schedule next =
        schedule.then(schedules::StepMaker(random, schedule.nest()).make(progress));
    if (!next.error() && next.program()) schedule = next;
  }
  return schedule;
}

using Maker = schedules::RandomCompute (*)(Random& random);

schedules::RandomCompute with_constant_stages(Random& random) {
  return {schedules::random_constants(random)};
}

void run(uint64_t first_seed, int cases, int cases_a_c_run,
         Maker make = schedules::random_compute) {
  for (int i = 0; i < cases && !testing::Test::HasFailure(); ++i) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(i);
    Random random(seed);
    const auto [declared, tolerance] = make(random);
    const dsl::Compute compute = seed % 3 == 0 ? schedules::in_doubles(declared) : declared;
    const Schedule schedule = random_schedule(random, compute);
    const auto program = schedule.program();
    ASSERT_TRUE(program) << program.error().message;
    SCOPED_TRACE(fmt::format("seed {}\n{}\n{}\n{}", seed, dsl::to_text(compute),
                             schedule.to_string(), to_string(*program)));
    Storage inputs;
    const dsl::Arrays arrays = schedules::exact_inputs(compute, seed);
    for (const auto& argument : program->arguments)
      if (!argument.is_output && !argument.prepared)
        inputs[argument.buffer.name] = schedules::packed(argument, arrays.at(argument.buffer.name));
    Storage expected = inputs;
    if (!schedules::evaluate(*program, expected))
      continue;  // lowering's fault: tests/schedules finds it
    const double slack = std::max(tolerance, 4e-6);
    const std::vector<Target> targets = runnable_targets();
    const Target& target = targets[static_cast<size_t>(i) % targets.size()];
    const auto from_object = run_object(*program, inputs, target);
    ASSERT_TRUE(from_object) << from_object.error().message;
    EXPECT_EQ(difference(*program, expected, *from_object, slack, slack), "") << target.to_string();
    if (i % cases_a_c_run != 0) continue;
    const auto from_c = run_c(*program, inputs);
    ASSERT_TRUE(from_c) << from_c.error().message;
    EXPECT_EQ(difference(*program, expected, *from_c, slack, slack), "") << "C";
  }
}

TEST(Random, SchedulesAgreeOnAllWays) { run(1, 60, 6); }

TEST(Random, PreparedStagesAgreeOnAllWays) { run(1, 20, 5, with_constant_stages); }

TEST(Random, ManySchedulesAgreeOnAllWays) {
  TW_ONLY_NIGHTLY();
  run(1000, 1500, 5);
  run(1000, 300, 5, with_constant_stages);
}

}  // namespace
}  // namespace tw::codegen
