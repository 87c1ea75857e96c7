// SPDX-License-Identifier: Apache-2.0
#include "db/recorder.h"

#include <fmt/format.h>

#include <utility>

namespace tw::db {

Recorder::Recorder(Store& store, Spool spool, RecorderOptions options)
    : store_(&store), spool_(std::move(spool)), options_(std::move(options)) {}

Status Recorder::add(Record record) {
  pending_.push_back(seal(std::move(record)));
  return pending_.size() < options_.batch ? Status() : flush();
}

Status Recorder::flush() {
  if (!pending_.empty()) {
    const Result<AppendSummary> appended = store_->append(pending_);
    if (!appended) return spool_pending(appended.error());
    stored_ += *appended;
    pending_.clear();
  }
  drain_spool();
  return {};
}

void Recorder::drain_spool() {
  const Result<AppendSummary> drained = spool_.drain(*store_);
  if (drained) {
    stored_ += *drained;
  } else if (!std::exchange(has_told_undrained_, true)) {
    // No record is lost, and the next flush tries again.
    say(fmt::format("the records in {} still wait: {}", spool_.path(), drained.error().message));
  }
}

Status Recorder::spool_pending(const Error& why) {
  if (const Status spooled = spool_.append(pending_); !spooled)
    return fail(why.code, fmt::format("{}; {} records could not be stored, as they cannot wait in "
                                      "the spool either: {}",
                                      why.message, pending_.size(), spooled.error().message));
  say(fmt::format("{} records wait in {}: {}", pending_.size(), spool_.path(), why.message));
  spooled_ += static_cast<int64_t>(pending_.size());
  pending_.clear();
  return {};
}

}  // namespace tw::db
