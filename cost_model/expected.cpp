// SPDX-License-Identifier: Apache-2.0
#include "cost_model/expected.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "cost_model/features.h"

// The bytes of pretrained.model are between these two symbols.
extern "C" const char tw_pretrained_model_begin[], tw_pretrained_model_end[];

namespace tw::cost_model {
namespace {

std::atomic<int> analytic_only = 0;  // number of living AnalyticOnly objects

/// Returns the trees for the target; null if there are none. The corpus has trials on x86-64 only.
const Pretrained* model_for(const Target& target) {
  const bool is_known = target.architecture == Architecture::X86_64;
  return !is_known || analytic_only > 0 || !shipped_model() ? nullptr : &*shipped_model();
}

/// Converts a time from log2(1 + ns), as in features, to ns. The result is at least 0. Corrections
/// may make the logarithm negative for a kernel that does almost nothing.
double as_ns(double time) { return std::max(0.0, std::exp2(time) - 1); }

}  // namespace

const Result<Pretrained>& shipped_model() {
  // The model is never destroyed, because XGBoost's own static objects may be destroyed before it
  // at the end of a process.
  static const auto* const model = new Result<Pretrained>(
      Pretrained::from_bytes({tw_pretrained_model_begin, tw_pretrained_model_end}));
  return *model;
}

AnalyticOnly::AnalyticOnly() { ++analytic_only; }
AnalyticOnly::~AnalyticOnly() { --analytic_only; }

std::string expectation_name(const Target& target) {
  const Pretrained* const model = model_for(target);
  return model ? "pretrained " + model->name() : "analytic";
}

void expect(std::span<std::vector<float>* const> rows, const Target& target) {
  const Pretrained* const model = model_for(target);
  if (!model || rows.empty()) return;
  const auto times = model->times(rows, target.machine);
  if (!times) return;  // out of memory, or the like
  for (size_t i = 0; i < rows.size(); ++i)
    set_expected_time(*rows[i], static_cast<float>((*times)[i]));
}

Result<std::vector<float>> features_with_expected_time(schedules::Program kernel,
                                                       const schedules::Problem& problem,
                                                       const Target& target, int threads) {
  TW_TRY(std::vector<float> row,
         extract_features_of_call(std::move(kernel), problem, target, threads));
  std::vector<float>* const rows[] = {&row};
  expect(rows, target);
  return row;
}

Result<double> expected_ns(schedules::Program kernel, const schedules::Problem& problem,
                           const Target& target, int threads) {
  TW_TRY(const std::vector<float> row,
         features_with_expected_time(std::move(kernel), problem, target, threads));
  return as_ns(expected_time_of(row));
}

}  // namespace tw::cost_model
