// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long, and with which clock, the database waits for another process. Not thread-safe.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tw::db {

using OnMessage = std::function<void(std::string_view)>;

/// A merge reads on a thread of its own, which asks for the time and sleeps there; on_message is
/// called on the thread of who merges.
struct Waiting {
  int64_t limit_ms = 60'000;
  std::function<int64_t()> now_ms = {};        ///< monotonic; empty: the steady clock
  std::function<void(int64_t)> sleep_ms = {};  ///< empty: sleeps
  OnMessage on_message = {};                   ///< hears of a wait that lasts; may be empty
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
  /// `what` is waited for, as messages name it.
  LockWait(Waiting waiting, std::string what);
  void begin();
  /// Sleeps a little and says true, or false once the limit has passed.
  bool wait();

 private:
  Waiting waiting_;
  std::string what_;
  int64_t began_ms_ = 0;
  int64_t next_message_ms_ = 0;
  int64_t pause_ms_ = 1;
};

}  // namespace tw::db
