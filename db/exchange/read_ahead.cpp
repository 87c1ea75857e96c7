// SPDX-License-Identifier: Apache-2.0
#include "db/exchange/read_ahead.h"

#include <utility>

namespace tw::db {
namespace {

// Number of records that push() hands over together, and largest number of such vectors that wait
// for next(). Together this is the number of records that a merge writes in one transaction, so
// neither thread waits long for the other.
constexpr size_t records_together = 512, most_ready = 8;

}  // namespace

Result<std::unique_ptr<ReadAhead>> ReadAhead::open(const std::string& path,
                                                   const Waiting& waiting) {
  std::unique_ptr<ReadAhead> reading(new ReadAhead(waiting.on_message));
  StoreOptions options;
  options.waiting = waiting;
  if (waiting.on_message)
    options.waiting.on_message = [to = reading.get()](std::string_view text) { to->say(text); };
  TW_TRY(Store store, Store::open(path, OpenMode::ReadOnly, std::move(options)));
  reading->store_.emplace(std::move(store));
  reading->reading_ =
      std::async(std::launch::async, [from = reading.get()] { return from->read_all(); });
  return reading;
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    is_given_up_ = true;
  }
  changed_.notify_all();
  if (reading_.valid()) reading_.wait();
}

Status ReadAhead::read_all() {
  // Reports the end even if reading throws because memory is short. Otherwise next() would wait
  // forever.
  struct End {
    ReadAhead& of;
    ~End() {
      const std::lock_guard lock(of.mutex_);
      of.is_ended_ = true;
      of.changed_.notify_all();
    }
  } const end{*this};
  std::vector<Record> records;
  TW_RETURN_IF_ERROR(store_->for_each({}, [&](const Record& record) {
    records.push_back(record);
    return records.size() < records_together || push(std::exchange(records, {}));
  }));
  if (!records.empty()) push(std::move(records));
  return {};
}

bool ReadAhead::push(std::vector<Record> records) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ready_.size() < most_ready || is_given_up_; });
  ready_.push_back(std::move(records));
  changed_.notify_all();
  return !is_given_up_;
}

Result<std::vector<Record>> ReadAhead::next() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !ready_.empty() || !messages_.empty() || is_ended_; });
    if (!messages_.empty()) {
      deliver(lock);
    } else if (!ready_.empty()) {
      std::vector<Record> records = std::move(ready_.front());
      ready_.pop_front();
      changed_.notify_all();
      return records;
    } else {
      if (reading_.valid()) TW_RETURN_IF_ERROR(reading_.get());
      return std::vector<Record>();
    }
  }
}

void ReadAhead::say(std::string_view message) {
  if (std::this_thread::get_id() == owner_) return on_message_(message);
  const std::lock_guard lock(mutex_);
  messages_.emplace_back(message);
  changed_.notify_all();
}

void ReadAhead::deliver(std::unique_lock<std::mutex>& lock) {
  const std::vector<std::string> messages = std::exchange(messages_, {});
  lock.unlock();
  for (const std::string& message : messages) on_message_(message);
  lock.lock();
}

}  // namespace tw::db
