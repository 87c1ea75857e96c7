// SPDX-License-Identifier: Apache-2.0
#pragma once
// Waiting for locks that other processes hold on a database, with a time limit, a clock and
// messages. Not thread-safe.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tw::db {

using OnMessage = std::function<void(std::string_view)>;

/// Options of a wait. A merge reads the other database on a second thread. This thread also calls
/// now_ms and sleep_ms. But on_message is called only on the thread that started the merge.
struct Waiting {
  int64_t limit_ms = 60'000;
  std::function<int64_t()> now_ms = {};        ///< monotonic; empty: the steady clock
  std::function<void(int64_t)> sleep_ms = {};  ///< empty: the thread sleeps
  OnMessage on_message = {};                   ///< called while a wait lasts; may be empty
};

/// Returns the time by the clock of `waiting`, in milliseconds.
int64_t now_ms(const Waiting& waiting);

/// The moment at which reading has to end. Thread-safe if the clock of the options is.
class Deadline {
 public:
  Deadline() = default;  ///< a deadline that never passes
  /// Makes a deadline that passes `limit_ms` milliseconds from now by the clock of `waiting`; 0:
  /// never.
  Deadline(Waiting waiting, int64_t limit_ms);
  bool has_passed() const;

 private:
  Waiting waiting_ = {};
  int64_t at_ms_ = INT64_MAX;
};

/// Waits for a lock. An object can be used for several waits, one after another. For each wait,
/// call begin() first. Then call wait() between attempts to take the lock, until an attempt
/// succeeds or wait() returns false.
class LockWait {
 public:
  /// `what` is the name of the locked thing in messages.
  LockWait(Waiting waiting, std::string what);
  void begin();
  /// Sleeps a little and returns true; returns false if the time limit of the options has passed.
  bool wait();

 private:
  Waiting waiting_;
  std::string what_;
  int64_t began_ms_ = 0;
  int64_t next_message_ms_ = 0;
  int64_t pause_ms_ = 1;
};

}  // namespace tw::db
