// SPDX-License-Identifier: Apache-2.0
#pragma once
// Overlaps building with measuring: while a batch is measured, the next one is built, and the one
// after it is thought out. Batches leave in the order in which they entered.
//
//   while (queue.has_room()) queue.push(next batch);   // the first begins to be built
//   Batch built = queue.pop();                         // waits for it; the second begins
//   ... measure it ...
//   queue.resume();                                    // the second begins here without overlap
//
// With one core for the kernel and one for a builder nothing waits. A kernel that uses every core
// is measured while nothing is built. Not thread-safe.

#include <functional>
#include <optional>
#include <vector>

#include "tuner/scoring.h"
#include "tuner/workers.h"

namespace tw::tuner {

class Task;

/// Candidates of a task on their way through the loop, or, without candidates, its reference
/// kernel.
struct Batch {
  Task* task = nullptr;
  std::vector<Candidate> candidates = {};
  std::vector<BuildOutcome> built = {};  ///< one a candidate, or that of the reference

  bool is_reference() const { return candidates.empty(); }
};

class BuildQueue {
 public:
  /// Hands a batch to the builder; returns false if nobody wants it any more, which drops it.
  using Begin = std::function<bool(const Batch& batch)>;

  /// The builder must outlive the queue. With `overlaps`, batches are built while others are
  /// measured.
  BuildQueue(Builder& builder, bool overlaps, Begin begin);

  /// A batch may wait for the one that is being built.
  bool has_room() const { return !waiting_; }
  bool is_empty() const { return !building_ && !waiting_; }
  /// Requires has_room().
  void push(Batch batch);
  /// Waits until the oldest batch is built, and removes it. Requires that resume() was called since
  /// the last pop(), and !is_empty().
  Batch pop();
  /// Says that the batch of the last pop() has been measured.
  void resume() { start(); }

 private:
  void start();

  Builder& builder_;
  const bool overlaps_;
  const Begin begin_;
  std::optional<Batch> building_, waiting_;
};

}  // namespace tw::tuner
