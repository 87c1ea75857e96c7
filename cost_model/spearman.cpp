// SPDX-License-Identifier: Apache-2.0
#include "cost_model/spearman.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/result.h"

namespace tw::cost_model {
namespace {

std::vector<double> ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t last = first + 1;
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    const double mean = 0.5 * static_cast<double>(first + last - 1);
    for (size_t i = first; i < last; ++i) result[order[i]] = mean;
    first = last;
  }
  return result;
}

}  // namespace

std::optional<double> spearman(std::span<const double> a, std::span<const double> b) {
  TW_CHECK(a.size() == b.size());
  const auto is_nan = [](double v) { return std::isnan(v); };
  if (std::any_of(a.begin(), a.end(), is_nan) || std::any_of(b.begin(), b.end(), is_nan))
    return std::nullopt;
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double mean = 0.5 * (static_cast<double>(a.size()) - 1);
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

}  // namespace tw::cost_model
