// SPDX-License-Identifier: Apache-2.0
#include "cost_model/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tw::cost_model {
namespace {

// least number of failures and of successes from which failures are learned
constexpr size_t least_of_each = 8;
// The lower bound on the predicted probability that a candidate is valid. With it, a candidate that
// is predicted to be more than sixteen times as fast as the others is tried in any case.
constexpr double least_validity = 1.0 / 16;
constexpr BoosterOptions validity_options = {.objective = Objective::Probability};

/// Returns the reason for which a sample is refused; empty for a usable sample.
std::string problem_of(const Sample& sample) {
  if (sample.features.size() != feature_count())
    return fmt::format("has {} features, expected {}; extract them with this version",
                       sample.features.size(), feature_count());
  if (!std::ranges::all_of(sample.features, [](float v) { return std::isfinite(v); }))
    return "has a feature that is no number; leave it out";
  if (sample.valid && (!std::isfinite(sample.throughput) || sample.throughput <= 0))
    return fmt::format("is valid with a throughput of {}; give a positive number",
                       sample.throughput);
  return "";
}

/// Returns the probabilities that candidates are valid; all are 1 if the prediction fails.
std::vector<float> valid_share(const Booster& validity, std::span<const std::vector<float>> rows) {
  Matrix matrix(feature_count());
  matrix.reserve(rows.size());
  for (const std::vector<float>& row : rows) matrix.append(row);
  return validity.predict(matrix).value_or(std::vector<float>(rows.size(), 1.0F));
}

}  // namespace

std::vector<double> WorkloadModel::predict(std::span<const std::vector<float>> rows) const {
  std::vector<double> scores;
  for (const std::vector<float>& row : rows)
    scores.push_back(-ordering_time_of(row) - corrections_.log2_factor(row));
  if (!validity_ || rows.empty()) return scores;
  const std::vector<float> valid = valid_share(*validity_, rows);
  for (size_t i = 0; i < rows.size(); ++i)
    scores[i] += std::log2(std::max<double>(valid[i], least_validity));
  return scores;
}

Status CostModel::add(std::span<const Sample> samples) {
  size_t refused = 0;
  std::string first;
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::string problem = problem_of(samples[i]);
    if (problem.empty()) {
      samples_.push_back(samples[i]);
      valid_ += samples[i].valid ? 1 : 0;
    } else if (refused++ == 0) {
      first = fmt::format("sample {} {}", i, problem);
    }
  }
  if (refused == 0) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("[update cost model] {} of {} samples are refused: {}", refused,
                          samples.size(), first));
}

Status CostModel::learn_failures() {
  if (std::min(failures(), valid_samples()) < least_of_each) return {};
  const size_t more = std::min(failures_learned_at_, 128 + failures_learned_at_ / 4);
  if (failures_learned_at_ > 0 && samples_.size() < failures_learned_at_ + more) return {};
  failures_learned_at_ = samples_.size();
  TrainingSet data(feature_count());
  for (const Sample& sample : samples_) {
    data.rows.append(sample.features);
    data.labels.push_back(sample.valid ? 1.0F : 0.0F);
  }
  TW_TRY(Booster trees, Booster::train(data, validity_options));
  validity_ = std::make_shared<const Booster>(std::move(trees));
  return {};
}

WorkloadModel CostModel::for_group(uint64_t group) const {
  std::vector<MeasuredKernel> kernels;
  for (const Sample& sample : samples_)
    if (sample.valid)
      kernels.push_back({sample.features, sample.throughput, sample.group, sample.same_machine});
  return WorkloadModel(Corrections(kernels, group), validity_);
}

}  // namespace tw::cost_model
