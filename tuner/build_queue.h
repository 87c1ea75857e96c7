// SPDX-License-Identifier: Apache-2.0
#pragma once
// Overlaps building with measuring: while a batch is measured and others are thought out, the
// builder works off those that wait. Batches leave in the order in which they entered.
//
//   while (queue.has_room()) queue.push(next batch);
//   Batch built = queue.pop();   // waits for it
//   ... measure it ...
//   queue.resume();
//
// With one core for the kernel and one for a builder nothing waits. A kernel that uses every core
// is measured while nothing is built: then all batches that wait are built together while the next
// ones are thought out, and measured one after the other. Not thread-safe.

#include <deque>
#include <functional>
#include <vector>

#include "tuner/search/scoring.h"
#include "tuner/workers/workers.h"

namespace tw::tuner {

class Task;

/// Candidates of a task on their way through the loop, or, without candidates, its reference
/// kernel.
struct Batch {
  Task* task = nullptr;
  std::vector<Candidate> candidates = {};
  std::vector<BuildOutcome> built = {};  ///< one a candidate, or that of the reference
  /// True if it has no candidates because other runs have them under way: more are to be proposed.
  bool was_refused = false;

  bool is_reference() const { return candidates.empty(); }
};

/// The task of a batch and its number of candidates; none of a reference.
struct Share {
  Task* task = nullptr;
  size_t candidates = 0;
};
inline Share share_of(const Batch& batch) { return {batch.task, batch.candidates.size()}; }

class BuildQueue {
 public:
  /// Hands a batch to the builder; returns false if nobody wants it any more, which drops it.
  using Begin = std::function<bool(const Batch& batch)>;

  /// The builder must outlive the queue. With `overlaps`, batches are built while others are
  /// measured, and the queue holds `most` batches. Without, `most` - 1 batches wait while as many
  /// are built. Requires: most >= 2.
  BuildQueue(Builder& builder, bool overlaps, size_t most, Begin begin);

  bool has_room() const;
  bool is_empty() const { return batches_.empty(); }
  /// Requires has_room().
  void push(Batch batch);
  /// Waits until the oldest batch is built, and removes it. Requires that resume() was called since
  /// the last pop(), and !is_empty().
  Batch pop();
  /// Says that the batch of the last pop() has been measured.
  void resume();
  /// Those whose builds the last pop() waited for.
  const std::vector<Share>& waited_for() const { return waited_for_; }

 private:
  void begin_waiting();
  void finish_oldest();

  Builder& builder_;
  const bool overlaps_;
  const size_t most_;
  const Begin begin_;
  std::deque<Batch> batches_;  ///< built ones, then those that are being built, then waiting ones
  size_t built_ = 0, begun_ = 0;  ///< number of batches that are built, and that were begun
  bool is_measuring_ = false;
  std::vector<Share> waited_for_;
};

}  // namespace tw::tuner
