// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: reads all records of a database on a second thread, so that a merge can write
// records to another database meanwhile. Reading and hashing take a third of the time of a merge.
// Only one thread may call next().
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
  /// Opens the database, whose path is canonical, and begins to read. The callbacks of `waiting`
  /// are called on the threads that Waiting describes.
  static Result<std::unique_ptr<ReadAhead>> open(const std::string& path, const Waiting& waiting);

  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead();

  /// The next records, without damaged ones, in the order in which they were stored; empty at the
  /// end. Fails as Store::for_each() does.
  Result<std::vector<Record>> next();

  /// The database that was read. Requires: next() has returned an empty vector.
  Store& store() { return *store_; }

 private:
  explicit ReadAhead(OnMessage on_message)
      : on_message_(std::move(on_message)), owner_(std::this_thread::get_id()) {}

  Status read_all();
  /// Hands records to next(). False if the ReadAhead is being destroyed, so that nobody will take
  /// them.
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

  /// Last member, so that the thread ends before the other members are destroyed.
  std::future<Status> reading_;
};

}  // namespace tw::db
