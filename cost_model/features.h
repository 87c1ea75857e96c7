// SPDX-License-Identifier: Apache-2.0
#pragma once
// Features: a row of numbers that describes a Program for a Target and a number of threads. The
// learned models read such rows. The table features.def has the order, the names, the formulas and
// the documentation of the features. Thread-safe.

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

/// Version of the features. It changes when a row of features.def changes its meaning or place. A
/// model that was saved with another version is not loaded.
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

/// Returns the features of a program that is called with the caches in the given state. The result
/// has a finite number for each row of feature_table(). Runs no compiler. Fails with Usage if
/// threads < 1, and with the errors of extract_facts() if the program is not well formed.
Result<std::vector<float>> extract_features(const schedules::Program& program, const Target& target,
                                            int threads,
                                            dsl::CacheState state = dsl::CacheState::Hot);

/// Returns the features, as extract_features() does, of all that a call of `kernel` executes: the
/// kernel, and the conversions of its inputs and outputs between layouts
/// (schedules::program_of_call). The caches are in the state that the problem names. Requires:
/// `kernel` was lowered from a schedule of `problem`.
Result<std::vector<float>> extract_features_of_call(schedules::Program kernel,
                                                    const schedules::Problem& problem,
                                                    const Target& target, int threads);

/// Reads the analytic model's time from a row, as log2(1 + ns). Requires: feature_count() numbers.
double analytic_time_of(std::span<const float> features);

/// Reads the expected time (expected.h) from a row, as log2(1 + ns). Until set_expected_time() is
/// called for the row, this is the analytic time. Requires: feature_count() numbers.
double expected_time_of(std::span<const float> features);
void set_expected_time(std::span<float> features, float log2_ns);

/// Returns the time by which candidates are ordered before anything is measured. It is the analytic
/// time plus a share of the difference between the expected and the analytic time. All times are
/// log2(1 + ns). The share is below 1, because among many candidates the shortest expected time is
/// often a wrong one.
double ordering_time(double analytic_time, double expected_time);
/// Returns ordering_time() of the analytic and the expected time in a row. Requires:
/// feature_count() numbers.
double ordering_time_of(std::span<const float> features);

/// Reads the number of registers per thread that are expected to spill on a GPU; 0 for processors.
/// Requires: feature_count() numbers.
double gpu_spills_of(std::span<const float> features);

/// Returns a part of a row. It has, for each Resource in the order of the enumerators, the share of
/// the analytic time that is spent on the resource. Its last number is the share that is lost
/// because resources overlap imperfectly. Requires: feature_count() numbers.
std::span<const float> spent_of(std::span<const float> features);

}  // namespace tw::cost_model
