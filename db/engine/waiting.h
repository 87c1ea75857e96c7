// SPDX-License-Identifier: Apache-2.0
#pragma once
// Waits of the database for another process: their time limit, clock and messages. Not thread-safe.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tw::db {

using OnMessage = std::function<void(std::string_view)>;

/// Options of a wait. A merge reads on a thread of its own and calls now_ms and sleep_ms there;
/// on_message is called on the thread that merges.
struct Waiting {
  int64_t limit_ms = 60'000;
  std::function<int64_t()> now_ms = {};        ///< monotonic; empty: the steady clock
  std::function<void(int64_t)> sleep_ms = {};  ///< empty: sleeps
  OnMessage on_message = {};                   ///< called while a wait lasts; may be empty
};

/// The time by its clock, in milliseconds.
int64_t now_ms(const Waiting& waiting);

/// A moment after which reading ends. Thread-safe where the clock is.
class Deadline {
 public:
  Deadline() = default;  ///< never
  /// In so many milliseconds by the clock of `waiting`; 0: never.
  Deadline(Waiting waiting, int64_t limit_ms);
  bool has_passed() const;

 private:
  Waiting waiting_ = {};
  int64_t at_ms_ = INT64_MAX;
};

/// One wait after another under the same rules: begin(), then wait() until it says false.
class LockWait {
 public:
  /// `what` is the name in messages of what is waited for.
  LockWait(Waiting waiting, std::string what);
  void begin();
  /// Sleeps a little and returns true; returns false once the limit has passed.
  bool wait();

 private:
  Waiting waiting_;
  std::string what_;
  int64_t began_ms_ = 0;
  int64_t next_message_ms_ = 0;
  int64_t pause_ms_ = 1;
};

}  // namespace tw::db
