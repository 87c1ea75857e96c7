// SPDX-License-Identifier: Apache-2.0
#pragma once
// Workloads that share one budget, and what is to be done next for which of them. Private to
// tune.cpp.

#include <memory>
#include <optional>
#include <vector>

#include "tuner/session.h"

namespace tw::tuner {

/// What the builders get next: a batch of a goal, or without candidates its reference kernel.
struct Work {
  size_t goal = 0;
  std::vector<Candidate> batch = {};
};

class Suite {
 public:
  /// The goals must outlive it.
  static Result<Suite> open(const std::vector<Goal>& goals, const Target& target,
                            const TuneOptions& options, db::Store& store,
                            const Environment& environment, const OnProgress& on_progress);
  Suite(Suite&&) = default;

  /// The next work: first the reference and two batches of each goal, goals with the fewest batches
  /// first and among these those without a kernel in the database; then a batch of the goal that
  /// saves most. Nullopt when the budget is spent or all goals have ended.
  std::optional<Work> next();
  /// Hands it to the builders; false where it is not wanted any more.
  bool begin_build(const Work& work);
  std::vector<BuildOutcome> finish_build() { return shared_->farm.finish_build(); }
  /// Verifies and measures what was built, and learns from it.
  void measure(const Work& work, const std::vector<BuildOutcome>& built);
  /// The finals of all, in order.
  std::vector<Result<Tuned>> finish();
  /// The budget ended before the goal's turn.
  bool never_began(size_t goal) const;

 private:
  /// A goal and how far it is.
  struct Part {
    const Goal* goal;
    bool is_known = false;                  ///< the database has a kernel for it
    std::unique_ptr<Session> session = {};  ///< none before its turn
    int64_t batches = 0;                    ///< proposed
    int64_t under_way = 0;                  ///< trials proposed and not measured
    std::optional<Ended> ended = {};
    std::optional<Error> failure = {};
  };
  explicit Suite(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}
  bool none_began() const;
  bool is_open(Part& part);
  bool is_wanted(const Part& part) const;
  std::optional<size_t> choose();
  std::vector<Outlook> outlooks(const std::vector<size_t>& places) const;
  void note(Part& part, const Status& status);
  Result<Tuned> finish(Part& part, double seconds);

  std::unique_ptr<Shared> shared_;
  std::vector<Part> parts_;
  int64_t accounted_ns_ = 0;  ///< until when time is charged to goals
};

}  // namespace tw::tuner
