// SPDX-License-Identifier: Apache-2.0
#pragma once
// The expected time: the time of a kernel that is predicted before any kernel is measured. On
// x86-64 trees predict it (pretrained.h). They are part of the program, and were trained on a
// corpus of trials of random workloads. On other targets, and if XGBoost is not installed, the
// expected time is that of the analytic model.
//
//   TW_TRY(std::vector<float> row, extract_features(program, target, threads));
//   std::vector<float>* const rows[] = {&row};
//   expect(rows, target);
//   expected_time_of(row);   // log2 ns
//
// While an AnalyticOnly exists, all expected times are those of the analytic model, so that both
// models can be compared. Thread-safe.

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "cost_model/pretrained.h"
#include "schedules/problem.h"
#include "schedules/program/program.h"

namespace tw::cost_model {

/// Returns the trees that are part of the program. They are read at the first call. Fails with
/// Environment if XGBoost is not installed.
const Result<Pretrained>& shipped_model();

/// While an object of this class exists, the expected times are those of the analytic model, on all
/// threads.
class AnalyticOnly {
 public:
  AnalyticOnly();
  ~AnalyticOnly();
  AnalyticOnly(const AnalyticOnly&) = delete;
  AnalyticOnly& operator=(const AnalyticOnly&) = delete;
};

/// Returns the name of the model that predicts the expected times on the target: "pretrained "
/// followed by Pretrained::name(), or "analytic".
std::string expectation_name(const Target& target);

/// Sets the feature `expected_ns` of each row to the time that the trees predict. Before the call,
/// this feature has the analytic time. Leaves the rows unchanged if there are no trees for the
/// target, or if the prediction fails. Requires: all rows are of kernels for `target`.
void expect(std::span<std::vector<float>* const> rows, const Target& target);

/// Returns the features of a call of one kernel (extract_features_of_call()), with the feature
/// `expected_ns` set by expect(). For many kernels, call expect() once for all rows: a row in a
/// batch of 64 takes a fifth of the time of a row by itself. Fails if extract_features() fails.
Result<std::vector<float>> features_with_expected_time(schedules::Program kernel,
                                                       const schedules::Problem& problem,
                                                       const Target& target, int threads);

/// Returns the expected time in ns of a call of a kernel for the problem. Fails if
/// extract_features() fails.
Result<double> expected_ns(schedules::Program kernel, const schedules::Problem& problem,
                           const Target& target, int threads);

}  // namespace tw::cost_model
