// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: reads all records of a database on a second thread, so that a merge can write
// records to another database at the same time. Reading and hashing take a third of the time of a
// merge. Only one thread may call next().
//
//   TW_TRY(const auto reading, ReadAhead::open(path, waiting));
//   while (true) {
//     TW_TRY(std::vector<Record> records, reading->next());
//     if (records.empty()) break;
//     ...
//   }

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "db/engine/waiting.h"
#include "db/record.h"
#include "db/store.h"

namespace tw::db {

class ReadAhead {
 public:
  /// Opens the database at `path`, a result of canonical_path(), and begins to read. The comment of
  /// Waiting says on which threads the callbacks of `waiting` are called.
  static Result<std::unique_ptr<ReadAhead>> open(const std::string& path, const Waiting& waiting);

  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead();

  /// Waits for the next records and returns them, without damaged records, in the order in which
  /// they were stored. Returns an empty vector at the end. Fails if reading the database fails.
  Result<std::vector<Record>> next();

  /// The database that was read. Requires: next() has returned an empty vector, so that the second
  /// thread has ended.
  Store& store() { return *store_; }

 private:
  explicit ReadAhead(OnMessage on_message)
      : on_message_(std::move(on_message)), owner_(std::this_thread::get_id()) {}

  Status read_all();
  /// Hands records to next(). Waits first while next() has 8 other vectors of records to return.
  /// Returns false if the ReadAhead is being destroyed; reading then stops.
  bool push(std::vector<Record> records);
  void say(std::string_view message);
  void deliver(std::unique_lock<std::mutex>& lock);

  const OnMessage on_message_;
  const std::thread::id owner_;
  std::optional<Store> store_;  ///< used by the reading thread alone until that has ended

  std::mutex mutex_;  ///< guards the members below, up to is_given_up_
  std::condition_variable changed_;
  std::deque<std::vector<Record>> ready_;
  std::vector<std::string> messages_;  ///< messages that the owner's thread must pass on
  bool is_ended_ = false, is_given_up_ = false;

  /// The result of the second thread. It is the last member, so that this thread ends before the
  /// other members are destroyed.
  std::future<Status> reading_;
};

}  // namespace tw::db
