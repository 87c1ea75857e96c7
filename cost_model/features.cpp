// SPDX-License-Identifier: Apache-2.0
#include "cost_model/features.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost_model/analytic.h"
#include "cost_model/facts/facts.h"
#include "cost_model/gpu_analytic.h"
#include "schedules/program/pack.h"

namespace tw::cost_model {
namespace {

#define TW_FEATURE_VERSION(version)  // is in the header

constexpr FeatureInfo table[] = {
#define TW_FEATURE(name, unit, formula, expression) {#name, unit, formula},
#include "cost_model/features.def"
#undef TW_FEATURE
};

enum Row : size_t {
#define TW_FEATURE(name, unit, formula, expression) row_##name,
#include "cost_model/features.def"
#undef TW_FEATURE
};

// The share of the trees' correction that is used to order candidates (ordering_time()). It was
// chosen by searches of 40 random workloads on a Zen 4 (bench --search --random 8 --seed 202, of
// the kinds conv, dense, rows, fused and depthwise). With shares of 0, 0.3, 0.6 and 1, the first
// candidates had 0.830, 0.863, 0.812 and 0.826 of the best known speed, and the best of the first
// four had 0.881, 0.914, 0.898 and 0.903.
constexpr double trusted_correction = 0.3;

double lg(double x) { return std::log2(1 + std::max(0.0, x)); }
double per(double a, double b) { return b > 0 ? a / b : 0; }

const PhaseFacts& phase_of(const KernelFacts& k, const BlockFacts& block) {
  for (const PhaseFacts& phase : k.phases)
    for (const BlockFacts& candidate : phase.blocks)
      if (&candidate == &block) return phase;
  TW_CHECK(false, "the hot block is one of the program's");
}

/// The phase of a program for a GPU that takes longest; all numbers are 0 for other programs.
struct LongestPhase {
  GpuPhaseFacts facts;
  GpuPhaseCost cost;
  double most_spills = 0;  ///< the largest number of spilled registers of any phase
};

LongestPhase longest_phase(const KernelFacts& k, const Machine& machine) {
  LongestPhase longest;
  if (!k.gpu) return longest;
  for (const GpuPhaseFacts& phase : k.gpu->phases) {
    longest.most_spills = std::max(longest.most_spills, phase.spills);
    const GpuPhaseCost cost = gpu_phase_cost(phase, machine);
    if (cost.total() <= longest.cost.total()) continue;
    longest.facts = phase;
    longest.cost = cost;
  }
  return longest;
}

std::vector<float> row(const KernelFacts& k, const BlockFacts& b, const PhaseFacts& p,
                       const AnalyticCost& d, const Machine& m, double threads,
                       dsl::CacheState state) {
  const Instructions& i = b.instructions;
  const LongestPhase longest = longest_phase(k, m);
  const auto& [g, c, most_spills] = longest;
  const double longest_ns = c.total();
  const Gpu a = m.gpu.value_or(Gpu{});
  const double multiprocessors = m.gpu ? m.cores : 0;
  const double gpu_l2 = m.gpu ? static_cast<double>(m.l2_bytes()) : 0;
  const WarpInstructions& gi = g.instructions;
  double iterations = 0, entries = 0, dynamic_entries = 0, all_tasks = 0, blocks = 0, second = 0;
  for (const PhaseFacts& phase : k.phases) {
    iterations += phase.serial_iterations;
    entries += phase.loop_entries;
    dynamic_entries += phase.dynamic_entries;
    all_tasks += phase.tasks;
    blocks += static_cast<double>(phase.blocks.size());
    for (const BlockFacts& block : phase.blocks)
      if (&block != &b) second = std::max(second, block.executions * block.instructions.total());
  }
  const auto traffic = [&](size_t level) {
    double bytes = 0;
    for (const PhaseFacts& phase : k.phases) bytes += phase.traffic[level];
    return bytes;
  };
  const auto spent = [&](Resource resource) {
    return per(d.spent.by_resource[static_cast<size_t>(resource)], d.total_ns);
  };
  // An index beyond the outermost loop of the task gives the footprint of the task.
  const auto footprint = [&](size_t loop) {
    return b.footprints.empty() ? 0.0 : b.footprints[std::min(loop, b.footprints.size() - 1)];
  };
  return {
#define TW_FEATURE(name, unit, formula, expression) static_cast<float>(expression),
#include "cost_model/features.def"
#undef TW_FEATURE
  };
}

#undef TW_FEATURE_VERSION

}  // namespace

std::span<const FeatureInfo> feature_table() { return table; }
size_t feature_count() { return std::size(table); }

Result<std::vector<float>> extract_features(const schedules::Program& program, const Target& target,
                                            int threads, dsl::CacheState state) {
  if (threads < 1)
    return fail(ErrorCode::Usage,
                fmt::format("[extract features] {} threads given; give 1 or more", threads));
  TW_TRY(const KernelFacts facts, extract_facts(program, target, state));
  const BlockFacts* hot = facts.hot_block();
  const BlockFacts no_block;
  const PhaseFacts no_phase;
  const PhaseFacts& phase = hot ? phase_of(facts, *hot) : no_phase;
  return row(facts, hot ? *hot : no_block, phase, analytic_cost(facts, target.machine, threads),
             target.machine, threads, state);
}

Result<std::vector<float>> extract_features_of_call(schedules::Program kernel,
                                                    const schedules::Problem& problem,
                                                    const Target& target, int threads) {
  return extract_features(schedules::program_of_call(std::move(kernel), problem, target), target,
                          threads, problem.state);
}

double analytic_time_of(std::span<const float> features) {
  TW_CHECK(features.size() == feature_count(), "a row of another feature version");
  return features[row_analytic_ns];
}

double expected_time_of(std::span<const float> features) {
  TW_CHECK(features.size() == feature_count(), "a row of another feature version");
  return features[row_expected_ns];
}

void set_expected_time(std::span<float> features, float log2_ns) {
  TW_CHECK(features.size() == feature_count(), "a row of another feature version");
  static_assert(row_expected_ns == std::size(table) - 1);
  features[row_expected_ns] = log2_ns;
}

double ordering_time(double analytic_time, double expected_time) {
  return analytic_time + trusted_correction * (expected_time - analytic_time);
}

double ordering_time_of(std::span<const float> features) {
  return ordering_time(analytic_time_of(features), expected_time_of(features));
}

double gpu_spills_of(std::span<const float> features) {
  TW_CHECK(features.size() == feature_count(), "a row of another feature version");
  return features[row_gpu_spills];
}

std::span<const float> spent_of(std::span<const float> features) {
  TW_CHECK(features.size() == feature_count(), "a row of another feature version");
  static_assert(row_spent_overlap - row_spent_arithmetic == resource_count);
  return features.subspan(row_spent_arithmetic, resource_count + 1);
}

}  // namespace tw::cost_model
