// SPDX-License-Identifier: Apache-2.0
#pragma once
// The time that is expected of a kernel before anything is measured. On x86-64 it is that of the
// trees that the program carries (pretrained.h), which were trained on the corpus; on other
// targets, and where XGBoost is not installed, that of the analytic model.
//
//   TW_TRY(std::vector<float> row, extract_features(program, target, threads));
//   std::vector<float>* const rows[] = {&row};
//   expect(rows, target);
//   expected_time_of(row);   // log2 ns
//
// An AnalyticOnly leaves the trees out while it lives, for comparisons. Thread-safe.

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "cost_model/pretrained.h"
#include "schedules/problem.h"
#include "schedules/program/program.h"

namespace tw::cost_model {

/// The model that the program carries, which is read once. Environment where XGBoost is not
/// installed.
const Result<Pretrained>& shipped_model();

/// While one lives, the expected times are the analytic model's, on all threads.
class AnalyticOnly {
 public:
  AnalyticOnly();
  ~AnalyticOnly();
  AnalyticOnly(const AnalyticOnly&) = delete;
  AnalyticOnly& operator=(const AnalyticOnly&) = delete;
};

/// The name of what gives the expected times on the target: "pretrained " and the name of the
/// model, or "analytic".
std::string expectation_name(const Target& target);

/// Replaces the feature `expected_ns` of each row, which extract_features() sets to the analytic
/// time, by the time that the trees expect. All rows are of kernels for `target`. Leaves the rows
/// as they are where the target has no trees.
void expect(std::span<std::vector<float>* const> rows, const Target& target);

/// extract_features_of_call() of one kernel, with its expected time. For many kernels call
/// expect(): a row among 64 takes a fifth of the time. Fails as extract_features().
Result<std::vector<float>> features_with_expected_time(schedules::Program kernel,
                                                       const schedules::Problem& problem,
                                                       const Target& target, int threads);

/// The expected time in ns of a call of a kernel of the problem. Fails as extract_features().
Result<double> expected_ns(schedules::Program kernel, const schedules::Problem& problem,
                           const Target& target, int threads);

}  // namespace tw::cost_model
