// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/workers.h"

#include <gmock/gmock.h>

namespace tw::tuner {
namespace {

/// A builder with the same outcome for every schedule.
class OneOutcome : public Builder {
 public:
  explicit OneOutcome(BuildOutcome outcome) : outcome_(std::move(outcome)) {}
  Status begin(const BuildRequest&) override { return {}; }
  std::vector<BuildOutcome> finish() override { return {outcome_}; }
  std::string toolchain() const override { return ""; }

 private:
  BuildOutcome outcome_;
};

TEST(Workers, OneBuildIsAKernelOrTheReasonWhyThereIsNone) {
  const BuildRequest request{.kernels = {{"w", "tw1"}}};
  OneOutcome works({"kernel", db::TrialStatus::Ok});
  EXPECT_EQ(build_one(works, request).value().artifact, "kernel");
  OneOutcome illegal({"", db::TrialStatus::Illegal, "no loop k"});
  EXPECT_EQ(build_one(illegal, request).error(), (Error{ErrorCode::Invalid, "illegal: no loop k"}));
  OneOutcome broken({"", db::TrialStatus::CompileError, "ld", true});
  EXPECT_EQ(build_one(broken, request).error(),
            (Error{ErrorCode::Environment, "compile_error: ld"}));
}

TEST(Workers, TimeOfSeveralWorkersCountsOnce) {
  BusyTime busy;
  busy.add(0, 2'000'000'000);
  busy.add(1'000'000'000, 3'000'000'000);
  busy.add(500'000'000, 2'500'000'000);
  EXPECT_DOUBLE_EQ(busy.seconds(), 3);
  busy.add(10'000'000'000, 11'000'000'000);
  EXPECT_DOUBLE_EQ(busy.seconds(), 4);
}

}  // namespace
}  // namespace tw::tuner
