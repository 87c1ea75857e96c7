// SPDX-License-Identifier: Apache-2.0
#include "cost_model/quality.h"

#include <algorithm>
#include <cmath>
#include <map>
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

/// Indices of the k largest; of equals the first, so that the answer is reproducible.
std::vector<size_t> top(const std::vector<double>& values, size_t k) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  order.resize(k);
  return order;
}

struct Columns {
  std::vector<double> scores, throughputs;
};

void judge_group(const Columns& group, Quality& sum) {
  if (group.scores.size() < 3) return;
  const auto [low, high] = std::minmax_element(group.throughputs.begin(), group.throughputs.end());
  if (*low == *high) return;
  const double best = *high;
  const size_t k = picks(group.scores.size());
  const std::vector<size_t> chosen = top(group.scores, k), fastest = top(group.throughputs, k);
  double found = 0, reached = 0;
  for (const size_t i : chosen) {
    found += std::count(fastest.begin(), fastest.end(), i) > 0 ? 1 : 0;
    reached = std::max(reached, group.throughputs[i]);
  }
  sum.spearman += spearman(group.scores, group.throughputs).value_or(0);
  sum.recall += found / static_cast<double>(k);
  sum.regret += 1 - reached / best;
  sum.groups += 1;
}

}  // namespace

size_t picks(size_t group_size) { return std::clamp<size_t>(group_size / 4, 1, 8); }

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

Quality judge(const std::vector<Judged>& candidates) {
  std::map<size_t, Columns> groups;
  for (const Judged& c : candidates) {
    groups[c.group].scores.push_back(std::isnan(c.score) ? -INFINITY : c.score);
    groups[c.group].throughputs.push_back(c.throughput);
  }
  Quality quality{0, 0, 0, 0};
  for (const auto& [group, columns] : groups) judge_group(columns, quality);
  if (quality.groups == 0) return Quality{};
  const double n = static_cast<double>(quality.groups);
  quality.spearman /= n;
  quality.recall /= n;
  quality.regret /= n;
  return quality;
}

}  // namespace tw::cost_model
