// SPDX-License-Identifier: Apache-2.0
#include "tuner/build_queue.h"

#include <utility>

namespace tw::tuner {

BuildQueue::BuildQueue(Builder& builder, bool overlaps, size_t most, Begin begin)
    : builder_(builder), overlaps_(overlaps), most_(most), begin_(std::move(begin)) {
  TW_CHECK(most >= 2);
}

bool BuildQueue::has_room() const {
  if (overlaps_) return batches_.size() < most_;
  // While built batches wait to be measured, no further batch is proposed.
  return built_ == 0 && batches_.size() - begun_ < most_ - 1;
}

void BuildQueue::push(Batch batch) {
  TW_CHECK(has_room() && !is_measuring_);
  batches_.push_back(std::move(batch));
  begin_waiting();
}

Batch BuildQueue::pop() {
  TW_CHECK(begun_ > 0 && !is_measuring_);
  waited_for_.clear();
  if (built_ == 0) finish_oldest();
  while (!overlaps_ && built_ < begun_) finish_oldest();
  Batch batch = std::move(batches_.front());
  batches_.pop_front();
  --built_;
  --begun_;
  is_measuring_ = true;
  return batch;
}

void BuildQueue::resume() {
  is_measuring_ = false;
  begin_waiting();
}

/// Hands the waiting batches to the builder. If building and measuring alternate, this happens only
/// after all batches before them were measured.
void BuildQueue::begin_waiting() {
  if (!overlaps_ && begun_ > 0) return;
  while (begun_ < batches_.size()) {
    if (begin_(batches_[begun_]))
      ++begun_;
    else
      batches_.erase(batches_.begin() + static_cast<std::ptrdiff_t>(begun_));
  }
}

void BuildQueue::finish_oldest() {
  Batch& batch = batches_[built_++];
  batch.built = builder_.finish();
  waited_for_.push_back(share_of(batch));
}

}  // namespace tw::tuner
