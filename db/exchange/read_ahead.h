// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: reads all records of a database on a thread of its own, so that what was read is
// written to another database meanwhile: reading and hashing takes a third of a merge. One thread
// takes the records.
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
  /// are called as that says.
  static Result<std::unique_ptr<ReadAhead>> open(const std::string& path, const Waiting& waiting);

  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead();

  /// The next records in the order in which they were stored, without damaged ones; none at the
  /// end. Fails as Store::for_each() does.
  Result<std::vector<Record>> next();

  /// The database. Requires: next() has given the end.
  Store& store() { return *store_; }

 private:
  explicit ReadAhead(OnMessage on_message)
      : on_message_(std::move(on_message)), owner_(std::this_thread::get_id()) {}

  Status read_all();
  /// False where nobody will take them.
  bool push(std::vector<Record> records);
  void say(std::string_view message);
  void deliver(std::unique_lock<std::mutex>& lock);

  const OnMessage on_message_;
  const std::thread::id owner_;
  std::optional<Store> store_;  ///< the reading thread's until it has ended

  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::deque<std::vector<Record>> ready_;
  std::vector<std::string> messages_;  ///< that the owner has to hear
  bool is_ended_ = false, is_given_up_ = false;

  std::future<Status> reading_;  ///< ends before all else goes
};

}  // namespace tw::db
