// SPDX-License-Identifier: Apache-2.0
#include "bench/training/pretraining.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "bench/random_workloads.h"
#include "cost_model/features.h"
#include "schedules/space/space.h"

namespace tw::bench {
namespace {

/// Returns the true time, as log2 of ns, for these features. It may depend on a random number.
using Truth = std::function<double(const std::vector<float>& features, Random& random)>;

/// Returns recordings of random workloads. Their kernels take as long as `truth` says.
std::vector<tuner::Recording> recordings_of(const Truth& truth) {
  std::vector<tuner::Recording> recordings;
  const Target target = *parse_target("x86-64-v3");
  Random random(1);
  const std::vector<const Kind*> kinds = choose_kinds("dense,rows,elementwise").value();
  for (const Kind* kind : kinds)
    for (int64_t number = 0; number < 12; ++number) {
      const Item item = draw_item(*kind, 1, number).value();
      const auto space = schedules::Space::derive(item.workload.compute, target);
      tuner::Recording recording{item.name, item.workload.text(), target, {}, 0};
      for (int i = 0; i < 30; ++i) {
        const auto program = space.schedule(space.sample(random)).program();
        if (!program) continue;
        cost_model::Sample sample;
        sample.features = cost_model::extract_features(*program, target, 1).value();
        sample.throughput = std::exp2(-truth(sample.features, random));
        recording.best = std::max(recording.best, sample.throughput);
        recording.trials.push_back(std::move(sample));
      }
      recordings.push_back(std::move(recording));
    }
  return recordings;
}

const Judged& row_of_all(const std::vector<Judged>& rows, LeftOut left_out) {
  for (const Judged& row : rows)
    if (row.left_out == left_out && row.kind.empty()) return row;
  throw std::runtime_error("no such row");
}

TEST(Pretraining, WhatTheAnalyticModelIsWrongAboutIsLearnedFromOtherWorkloads) {
  // If a kernel has many statements, it takes 16 times as long as the analytic model predicts.
  const auto rows =
      judge_pretraining(recordings_of([](const std::vector<float>& features, Random&) {
        return cost_model::analytic_time_of(features) + (features[9] > 4 ? 4 : 0);
      }));
  ASSERT_TRUE(rows) << rows.error().message;
  for (const LeftOut left_out : {LeftOut::Workloads, LeftOut::Kinds}) {
    const Judged& all = row_of_all(*rows, left_out);
    EXPECT_EQ(all.recordings, 36);
    EXPECT_GT(all.pretrained.first, all.analytic.first);
    EXPECT_LT(all.pretrained.factor, all.analytic.factor);
  }
  // There is only one target. If it is left out, nothing remains to learn from.
  for (const Judged& row : *rows) EXPECT_NE(row.left_out, LeftOut::Targets);
  const std::string table = as_table(*rows);
  EXPECT_NE(table.find("elementwise"), std::string::npos);
}

// Checks that the test above does not pass because the model is given the answers.
TEST(Pretraining, NothingIsLearnedWhereTimesHaveNoReason) {
  const auto rows =
      judge_pretraining(recordings_of([](const std::vector<float>& features, Random& random) {
        return cost_model::analytic_time_of(features) + 2 * random.unit();
      }));
  ASSERT_TRUE(rows) << rows.error().message;
  const Judged& all = row_of_all(*rows, LeftOut::Workloads);
  EXPECT_LT(all.pretrained.first, 0.97);
  EXPECT_LE(all.pretrained.first, all.analytic.first + 0.05);
}

}  // namespace
}  // namespace tw::bench
