// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/gain.h"

#include <algorithm>
#include <cmath>

namespace tw::tuner {
namespace {

// Both constants are from 23 guided searches of ResNet-50 layers and 40 random ones. With them, the
// predicted gains of doubling 8, 16, 32... trials sum to within a fifth of the measured gains.
constexpr double tail_per_doubling = 0.0008;
constexpr double left_after_doubling = 0.25;

// Number of parts into which expected_improvement() divides the time.
constexpr int parts = 16;

double saved_ns(const SharedSearch& s, double seconds) {
  const double before = s.curve.next(s.committed);
  return s.total_ns * (s.curve.next(s.committed + seconds * s.trials_per_s) - before);
}

}  // namespace

void GainCurve::add(double latency_ns) {
  ++trials_;
  if (best_ns_ > 0) {
    const auto n = static_cast<double>(trials_);
    steps_ *= std::pow(left_after_doubling, std::log2(n / (n - 1)));
  }
  if (latency_ns <= 0 || (best_ns_ > 0 && latency_ns >= best_ns_)) return;
  if (best_ns_ > 0) steps_ += std::log(best_ns_ / latency_ns);
  best_ns_ = latency_ns;
}

void GainCurve::add_in_vain(int64_t trials) {
  if (trials <= 0) return;
  const auto before = static_cast<double>(trials_), added = static_cast<double>(trials);
  trials_ += trials;
  // One factor has the effect of calling add() for each trial: it is the product of their factors.
  if (best_ns_ > 0) steps_ *= std::pow(left_after_doubling, std::log2((before + added) / before));
}

double GainCurve::next(double more) const {
  const auto n = static_cast<double>(std::max<int64_t>(1, trials_));
  const double doublings = std::log2((n + std::max(0.0, more)) / n);
  if (best_ns_ == 0) return 1 - std::exp2(-doublings);
  const double rate = steps_ / (1 + std::log2(n));
  const double falling =
      rate * (1 - std::pow(left_after_doubling, doublings)) / -std::log(left_after_doubling);
  return 1 - std::exp(-(tail_per_doubling * doublings + falling));
}

std::optional<size_t> most_promising(const std::vector<SharedSearch>& searches, double seconds) {
  std::optional<size_t> best;
  double most_ns = 0;
  for (size_t i = 0; i < searches.size(); ++i) {
    const double ns = saved_ns(searches[i], seconds);
    if (ns <= most_ns) continue;
    best = i;
    most_ns = ns;
  }
  return best;
}

double expected_improvement(std::vector<SharedSearch> searches, double seconds) {
  double total_ns = 0, saved = 0;
  for (const SharedSearch& search : searches) total_ns += search.total_ns;
  const double part_s = searches.size() == 1 ? seconds : seconds / parts;
  for (double left_s = seconds; left_s > part_s / 2; left_s -= part_s) {
    const auto best = most_promising(searches, part_s);
    if (!best) break;
    SharedSearch& search = searches[*best];
    saved += saved_ns(search, part_s);
    search.committed += part_s * search.trials_per_s;
  }
  return total_ns > 0 ? saved / total_ns : 0;
}

}  // namespace tw::tuner
