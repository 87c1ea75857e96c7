// SPDX-License-Identifier: Apache-2.0
#pragma once
// Overlaps building with measuring: while the kernels of one batch are measured and the next
// batches are proposed, the builder compiles the batches in the queue. Batches leave the queue in
// the order in which they entered it.
//
//   while (queue.has_room()) queue.push(next batch);
//   Batch built = queue.pop();   // waits for it
//   ... measure it ...
//   queue.resume();
//
// If the kernels leave a core for a builder, building and measuring overlap. If the kernels use
// every core, building and measuring alternate: first all waiting batches are built together, while
// the search proposes the next batches; then the built batches are measured one after the other,
// and nothing is built meanwhile. Not thread-safe.

#include <deque>
#include <functional>
#include <vector>

#include "tuner/search/scoring.h"
#include "tuner/workers/workers.h"

namespace tw::tuner {

class Task;

/// Candidates of a task that are to be built and measured together. A batch without candidates
/// stands for the task's reference kernel.
struct Batch {
  Task* task = nullptr;
  std::vector<Candidate> candidates = {};
  /// Outcomes of the builds, one for each candidate and in the same order. A batch for the
  /// reference kernel has one outcome. Empty until the batch is built.
  std::vector<BuildOutcome> built = {};
  /// True if the batch has no candidates because other runs have claimed all of them. The search
  /// should then propose more.
  bool was_refused = false;

  bool is_reference() const { return candidates.empty(); }
};

/// A batch as TaskScheduler::charge() counts it: its task, and its number of candidates, which is 0
/// for a reference kernel. The time that a run has spent is charged to the tasks in proportion to
/// these numbers.
struct Share {
  Task* task = nullptr;
  size_t candidates = 0;
};
inline Share share_of(const Batch& batch) { return {batch.task, batch.candidates.size()}; }

class BuildQueue {
 public:
  /// A function that hands a batch to the builder. It returns false if the batch is not needed any
  /// more; the queue then drops the batch.
  using Begin = std::function<bool(const Batch& batch)>;

  /// `overlaps` says that batches are built while others are measured. If `overlaps` is true, the
  /// queue holds at most `most` batches. If it is false, at most `most` - 1 batches are built
  /// together, and meanwhile at most `most` - 1 further batches wait. Requires: most >= 2. The
  /// builder must outlive the queue.
  BuildQueue(Builder& builder, bool overlaps, size_t most, Begin begin);

  bool has_room() const;
  bool is_empty() const { return batches_.empty(); }
  /// Adds a batch. Requires has_room().
  void push(Batch batch);
  /// Waits until the oldest batch is built, removes it from the queue and returns it. Requires:
  /// !is_empty(), and since the last pop() resume() was called.
  Batch pop();
  /// Notes that the batch that the last pop() returned has been measured. Building then goes on.
  void resume();
  /// The batches whose builds the last pop() waited for. Empty if the batch that it returned was
  /// built before.
  const std::vector<Share>& waited_for() const { return waited_for_; }

 private:
  void begin_waiting();
  void finish_oldest();

  Builder& builder_;
  const bool overlaps_;
  const size_t most_;
  const Begin begin_;
  /// Built batches first, then batches that are being built, then waiting batches.
  std::deque<Batch> batches_;
  /// Number of built batches, and number of batches that were handed to the builder, including the
  /// built ones.
  size_t built_ = 0, begun_ = 0;
  bool is_measuring_ = false;
  std::vector<Share> waited_for_;
};

}  // namespace tw::tuner
