// SPDX-License-Identifier: Apache-2.0
#include "cost_model/similarity.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cost_model/features.h"

namespace tw::cost_model {
namespace {

// Sum of the differences, in units of scale_of(), for which the similarity is 1 / e.
constexpr float length_scale = 32;
// Cap of the difference of one feature, in units of scale_of().
constexpr float most_apart = 3;
// Number of partial sums. Several are used, because compilers do not reorder additions of floats.
constexpr size_t lanes = 8;

/// Returns a difference of the feature that makes two kernels clearly different.
float scale_of(const FeatureInfo& feature) {
  if (feature.unit == "ratio") return 0.15F;
  return feature.unit.starts_with("log2") || feature.unit == "count" ? 1 : 4;
}

const std::vector<float>& scales() {
  static const std::vector<float> all = [] {
    std::vector<float> result;
    for (const FeatureInfo& feature : feature_table()) result.push_back(scale_of(feature));
    return result;
  }();
  return all;
}

}  // namespace

ScaledFeatures::ScaledFeatures(std::span<const float> features) {
  const std::vector<float>& units = scales();
  TW_CHECK(features.size() == units.size(), "a row of another feature version");
  scaled_.resize((units.size() + lanes - 1) / lanes * lanes, 0.0F);
  for (size_t i = 0; i + 1 < units.size(); ++i) scaled_[i] = features[i] / units[i];
}

double ScaledFeatures::similarity(const ScaledFeatures& other) const {
  std::array<float, lanes> apart{};
  for (size_t i = 0; i < scaled_.size(); i += lanes)
    for (size_t lane = 0; lane < lanes; ++lane)
      apart[lane] += std::min(std::abs(scaled_[i + lane] - other.scaled_[i + lane]), most_apart);
  float sum = 0;
  for (const float part : apart) sum += part;
  return std::exp(-sum / length_scale);
}

}  // namespace tw::cost_model
