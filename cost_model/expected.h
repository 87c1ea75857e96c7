// SPDX-License-Identifier: Apache-2.0
#pragma once
// The time that is expected of a kernel before anything is measured. On x86-64 it is predicted by
// the trees that the program carries (pretrained.h), which were trained on the corpus. On other
// targets, and if XGBoost is not installed, the expected time is the analytic model's.
//
//   TW_TRY(std::vector<float> row, extract_features(program, target, threads));
//   std::vector<float>* const rows[] = {&row};
//   expect(rows, target);
//   expected_time_of(row);   // log2 ns
//
// While an AnalyticOnly lives, the analytic model's times are used everywhere, so that the two
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

/// The model that the program carries, which is read once. Environment if XGBoost is not installed.
const Result<Pretrained>& shipped_model();

/// While an object of this class lives, the expected times are the analytic model's, on all
/// threads.
class AnalyticOnly {
 public:
  AnalyticOnly();
  ~AnalyticOnly();
  AnalyticOnly(const AnalyticOnly&) = delete;
  AnalyticOnly& operator=(const AnalyticOnly&) = delete;
};

/// The name of the model that gives the expected times on the target: "pretrained " and the model's
/// name, or "analytic".
std::string expectation_name(const Target& target);

/// Replaces the feature `expected_ns` of each row by the time that the trees expect;
/// extract_features() sets it to the analytic time. Leaves the rows unchanged if the target has no
/// trees. Requires: all rows are of kernels for `target`.
void expect(std::span<std::vector<float>* const> rows, const Target& target);

/// Returns extract_features_of_call() for one kernel, with its expected time. For many kernels call
/// expect(): a row among 64 takes a fifth of the time of a single row. Fails as extract_features().
Result<std::vector<float>> features_with_expected_time(schedules::Program kernel,
                                                       const schedules::Problem& problem,
                                                       const Target& target, int threads);

/// Returns the expected time in ns of a call of a kernel of the problem. Fails as
/// extract_features().
Result<double> expected_ns(schedules::Program kernel, const schedules::Problem& problem,
                           const Target& target, int threads);

}  // namespace tw::cost_model
