// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures how well scores order candidates that were measured but not trained on. Pure functions.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace tw::cost_model {

/// Averages over groups (workloads), each counted once.
struct Quality {
  double spearman = 0;  ///< rank correlation of score and throughput: 1 perfect, 0 chance
  double recall = 0;    ///< of the k fastest, the share among the k best scores
  double regret = 1;    ///< 1 - fastest of the k best scores / fastest: what is lost by measuring k
  size_t groups = 0;    ///< that could be judged; the other numbers mean nothing at 0
};

struct Judged {
  size_t group;       ///< scores of one group are comparable
  double score;       ///< higher = thought faster
  double throughput;  ///< measured
};

/// The k of recall and regret: a quarter of the group, at least 1 and at most 8, a usual batch.
size_t picks(size_t group_size);

/// Groups of fewer than 3, or whose throughputs are all equal, are left out. A score that is NaN is
/// the lowest.
Quality judge(const std::vector<Judged>& candidates);

/// Correlation of ranks, ties sharing their mean rank; nullopt when either side is constant or
/// holds a NaN.
/// Requires: equal sizes.
std::optional<double> spearman(std::span<const double> a, std::span<const double> b);

}  // namespace tw::cost_model
