// SPDX-License-Identifier: Apache-2.0
#pragma once
// Features: a Program on a Target with a number of threads, as a row of numbers that
// models read. features.def is the table: from its rows follow the names, the documentation and the
// order. Thread-safe.

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "dsl/cache_state.h"
#include "schedules/problem.h"
#include "schedules/program/program.h"

namespace tw::cost_model {

/// Changes when a row of features.def changes its meaning or place: models of another version are
/// not loaded.
#define TW_FEATURE_VERSION(version) inline constexpr int feature_version = version;
#define TW_FEATURE(name, unit, formula, expression)
#include "cost_model/features.def"
#undef TW_FEATURE
#undef TW_FEATURE_VERSION

struct FeatureInfo {
  std::string_view name, unit, formula;
};
std::span<const FeatureInfo> feature_table();
size_t feature_count();

/// One number a row of feature_table(), all finite. Runs no compiler. Fails on threads < 1 and on
/// programs that are not well formed.
Result<std::vector<float>> extract_features(const schedules::Program& program, const Target& target,
                                            int threads,
                                            dsl::CacheState state = dsl::CacheState::Hot);

/// The same of all that a call of a kernel of the problem executes (schedules::program_of_call), in
/// the state of the caches that the problem names.
Result<std::vector<float>> extract_features_of_call(schedules::Program kernel,
                                                    const schedules::Problem& problem,
                                                    const Target& target, int threads);

/// The analytic model's time, log2(1 + ns), as the row carries it. Requires: feature_count()
/// numbers.
double analytic_time_of(std::span<const float> features);

/// The time that is expected before anything is measured, log2(1 + ns): the analytic one until
/// set_expected_time(). Requires: feature_count() numbers.
double expected_time_of(std::span<const float> features);
void set_expected_time(std::span<float> features, float log2_ns);

/// The time that candidates are ordered by before anything is measured, log2(1 + ns): the analytic
/// one with a share of what the expected one corrects. The best of many candidates is often one
/// whose correction is wrong, so its whole correction is not trusted.
double ordering_time(double analytic_time, double expected_time);
/// ordering_time() of the two times that a row carries. Requires: feature_count() numbers.
double ordering_time_of(std::span<const float> features);

/// Registers of a GPU's thread that are expected to spill; 0 for processors. Requires:
/// feature_count() numbers.
double gpu_spills_of(std::span<const float> features);

/// The shares of that time that each Resource accounts for, in their order, and the part of them
/// that is loss by imperfect overlap. Requires: feature_count() numbers.
std::span<const float> spent_of(std::span<const float> features);

}  // namespace tw::cost_model
