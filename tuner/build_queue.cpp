// SPDX-License-Identifier: Apache-2.0
#include "tuner/build_queue.h"

#include <utility>

namespace tw::tuner {

BuildQueue::BuildQueue(Builder& builder, bool overlaps, Begin begin)
    : builder_(builder), overlaps_(overlaps), begin_(std::move(begin)) {}

void BuildQueue::push(Batch batch) {
  TW_CHECK(has_room());
  waiting_ = std::move(batch);
  start();
}

Batch BuildQueue::pop() {
  TW_CHECK(building_.has_value());
  Batch batch = *std::exchange(building_, std::nullopt);
  batch.built = builder_.finish();
  if (overlaps_) start();
  return batch;
}

/// Begins to build the batch that waits, unless another is being built.
void BuildQueue::start() {
  if (building_ || !waiting_) return;
  Batch next = *std::exchange(waiting_, std::nullopt);
  if (begin_(next)) building_ = std::move(next);
}

}  // namespace tw::tuner
