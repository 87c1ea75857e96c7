// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the writer gate, an flock on a file beside the database. Writers queue here
// instead of at SQLite's own locks, whose polling starves some of them for seconds. The kernel
// opens the gate again when its holder dies. Not thread-safe.

#include <string>
#include <utility>

#include "base/result.h"
#include "db/engine/waiting.h"

namespace tw::db {

class Gate {
 public:
  /// Leaves the gate at the end of its scope.
  class Hold {
   public:
    explicit Hold(int descriptor) : descriptor_(descriptor) {}
    Hold(Hold&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold();

   private:
    int descriptor_;
  };

  /// Creates the file where it is absent; its directory must be writable.
  static Result<Gate> open(const std::string& database_path, Waiting waiting);

  Gate(Gate&& other) noexcept;
  Gate& operator=(Gate&&) = delete;
  ~Gate();

  /// TryLater when the wait was longer than allowed.
  Result<Hold> enter();
  /// Removes the file of the lock, where there is no database to guard. Others that wait for it
  /// make a new one when it is their turn. Requires: the hold is this gate's.
  void remove_file(const Hold& hold);

 private:
  Gate(int descriptor, std::string path, Waiting waiting);
  Status lock();
  int descriptor_;
  std::string path_;
  LockWait lock_wait_;
};

}  // namespace tw::db
