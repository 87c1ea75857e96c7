// SPDX-License-Identifier: Apache-2.0
#include "tuner/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace tw::tuner {
namespace {

// What every goal gets before any gets more: one batch says where it stands, a second what it
// gains.
constexpr int64_t first_batches = 2;
// Of the goal that gets the next batch: about what one takes.
constexpr double slice_s = 0.5;
// Kept back from the budget for the finals of each goal: they take 2.5 s of slow kernels, half a
// second of fast ones at the least, and are to have no more than a fourth of the time.
constexpr double most_finals_s = 2.5, least_finals_s = 0.6;

// And for the batches under way when it ends.
constexpr double most_drain_s = 0.5;

double finals_of_each(double share_s) {
  return std::min(std::max(0.1 * share_s, std::min(least_finals_s, 0.25 * share_s)), most_finals_s);
}

}  // namespace

Result<Suite> Suite::open(const std::vector<Goal>& goals, const Target& target,
                          const TuneOptions& options, db::Store& store,
                          const Environment& environment, const OnProgress& on_progress) {
  TW_TRY(std::unique_ptr<Shared> shared,
         Shared::start(target, options, store, environment, on_progress));
  Suite suite(std::move(shared));
  for (const Goal& goal : goals) {
    TW_TRY(const auto known, suite.shared_->best_known(goal.workload));
    suite.parts_.push_back({&goal, known.has_value()});
  }
  const auto count = static_cast<double>(goals.size());
  suite.shared_->drain_s = std::min(most_drain_s, 0.05 * options.budget_s);
  suite.shared_->finals_s =
      count * finals_of_each(options.budget_s / count) + suite.shared_->drain_s;
  suite.shared_->suite.goals = goals.size();
  suite.accounted_ns_ = environment.clock();
  return suite;
}

bool Suite::none_began() const {
  return std::none_of(parts_.begin(), parts_.end(),
                      [](const Part& part) { return part.session || part.failure; });
}

/// Whether more of it may be proposed. A goal that has begun gets its first batch, though preparing
/// took the whole budget.
bool Suite::is_open(Part& part) {
  if (part.failure || part.ended) return false;
  if (!part.session) {
    return !shared_->interrupted() && (none_began() || shared_->left_s() > 0);
  }
  part.ended = part.session->ended();
  if (part.ended == Ended::Budget && part.batches == 0) part.ended.reset();
  return !part.ended;
}

std::vector<Outlook> Suite::outlooks(const std::vector<size_t>& places) const {
  std::vector<Outlook> result;
  for (const size_t i : places) result.push_back(parts_[i].session->outlook(parts_[i].under_way));
  return result;
}

std::optional<size_t> Suite::choose() {
  std::vector<size_t> open;
  for (size_t i = 0; i < parts_.size(); ++i)
    if (is_open(parts_[i])) open.push_back(i);
  const auto fewest = std::min_element(open.begin(), open.end(), [&](size_t a, size_t b) {
    return std::pair(parts_[a].batches, parts_[a].is_known) <
           std::pair(parts_[b].batches, parts_[b].is_known);
  });
  if (fewest == open.end()) return std::nullopt;
  if (parts_[*fewest].batches < first_batches) return *fewest;
  const auto best = best_use(outlooks(open), slice_s);
  return best ? open[*best] : *fewest;
}

std::optional<Work> Suite::next() {
  while (const auto chosen = choose()) {
    Part& part = parts_[*chosen];
    if (!part.session) {
      auto session = Session::open(*part.goal, *shared_);
      if (session) {
        part.session = std::move(*session);
        shared_->sessions.push_back(part.session.get());
        return Work{*chosen};
      }
      part.failure = session.error();
      continue;
    }
    Work work{*chosen, part.session->propose()};
    ++part.batches;
    part.under_way += static_cast<int64_t>(work.batch.size());
    if (!work.batch.empty()) return work;
    part.ended = shared_->interrupted() ? Ended::Interrupted : Ended::Trials;
  }
  return std::nullopt;
}

/// A failure while an interrupt ends all waits is none: the finals say what there is.
void Suite::note(Part& part, const Status& status) {
  if (!status && !shared_->interrupted()) part.failure = status.error();
}

bool Suite::is_wanted(const Part& part) const {
  if (part.failure || shared_->interrupted()) return false;
  return part.batches <= 1 || shared_->left_s() > 0;
}

bool Suite::begin_build(const Work& work) {
  Part& part = parts_[work.goal];
  if (!is_wanted(part)) return false;
  note(part, work.batch.empty() ? part.session->begin_reference()
                                : part.session->begin_build(work.batch));
  return !part.failure;
}

void Suite::measure(const Work& work, const std::vector<BuildOutcome>& built) {
  Part& part = parts_[work.goal];
  part.under_way -= static_cast<int64_t>(work.batch.size());
  if (!part.failure)
    note(part, work.batch.empty() ? part.session->finish_reference(built)
                                  : part.session->measure(work.batch, built));
  part.session->learn();
  const int64_t now_ns = shared_->environment.clock();
  const int64_t taken_ns = now_ns - std::exchange(accounted_ns_, now_ns);
  if (!work.batch.empty()) part.session->charge(static_cast<double>(taken_ns) * 1e-9);
}

Result<Tuned> Suite::finish(Part& part, double seconds) {
  if (part.failure) return tl::unexpected<Error>(*part.failure);
  if (part.session) {
    const auto ended = part.ended ? part.ended : part.session->ended();
    return part.session->finish(ended.value_or(Ended::Budget), seconds);
  }
  return shared_->interrupted()
             ? interrupted_at_start()
             : fail(ErrorCode::NoCandidate,
                    fmt::format("[tune] the budget ended before its turn: give more than "
                                "{} s (--budget)",
                                format_double(shared_->options.budget_s)));
}

bool Suite::never_began(size_t goal) const {
  const Part& part = parts_[goal];
  return !part.session && !part.failure && !shared_->interrupted();
}

std::vector<Result<Tuned>> Suite::finish() {
  std::vector<Result<Tuned>> results;
  size_t& finished = shared_->suite.finished;
  for (Part& part : parts_) {
    const double left_s = shared_->options.budget_s - shared_->elapsed_s();
    results.push_back(finish(part, left_s / static_cast<double>(parts_.size() - finished)));
    ++finished;
  }
  return results;
}

}  // namespace tw::tuner
