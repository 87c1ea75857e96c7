// SPDX-License-Identifier: Apache-2.0
#pragma once
// Features: the row of numbers that models read for a Program, a Target and a number of threads.
// The table features.def gives their order, names, formulas and documentation. Thread-safe.

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

/// Version of the features. It changes when a row of features.def changes its meaning or place;
/// models of another version are not loaded.
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

/// Computes one number for each row of feature_table(), all finite. Runs no compiler. Fails if
/// threads < 1, or if the program is not well formed.
Result<std::vector<float>> extract_features(const schedules::Program& program, const Target& target,
                                            int threads,
                                            dsl::CacheState state = dsl::CacheState::Hot);

/// As extract_features(), for everything that a call of a kernel of the problem executes
/// (schedules::program_of_call), with the caches in the state that the problem names.
Result<std::vector<float>> extract_features_of_call(schedules::Program kernel,
                                                    const schedules::Problem& problem,
                                                    const Target& target, int threads);

/// Reads the analytic model's time from a row, as log2(1 + ns). Requires: feature_count() numbers.
double analytic_time_of(std::span<const float> features);

/// Reads the expected time (expected.h) from a row, as log2(1 + ns). It is the analytic time until
/// set_expected_time(). Requires: feature_count() numbers.
double expected_time_of(std::span<const float> features);
void set_expected_time(std::span<float> features, float log2_ns);

/// The time, as log2(1 + ns), by which candidates are ordered before anything is measured: the
/// analytic time, corrected by a share of the difference to the expected time. The share is below
/// 1, because the best of many candidates is often one whose correction is wrong.
double ordering_time(double analytic_time, double expected_time);
/// ordering_time() of the two times that a row carries. Requires: feature_count() numbers.
double ordering_time_of(std::span<const float> features);

/// Reads the number of registers per thread that are expected to spill on a GPU; 0 for processors.
/// Requires: feature_count() numbers.
double gpu_spills_of(std::span<const float> features);

/// Reads the share of the analytic time that each Resource accounts for, in the order of Resource,
/// and then the share that is lost by imperfect overlap. Requires: feature_count() numbers.
std::span<const float> spent_of(std::span<const float> features);

}  // namespace tw::cost_model
