// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the writer gate, an flock on a file beside the database. Writers wait for this
// lock instead of SQLite's own locks, whose polling starves some writers for seconds. The kernel
// frees the lock when its holder dies. Not thread-safe.

#include <string>
#include <utility>

#include "base/result.h"
#include "db/engine/waiting.h"

namespace tw::db {

class Gate {
 public:
  /// Holds the gate; the destructor leaves it.
  class Hold {
   public:
    explicit Hold(int descriptor) : descriptor_(descriptor) {}
    Hold(Hold&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold();

   private:
    int descriptor_;
  };

  /// Opens the gate of a database and creates the lock file if it is absent. Requires: the
  /// directory is writable.
  static Result<Gate> open(const std::string& database_path, Waiting waiting);

  Gate(Gate&& other) noexcept;
  Gate& operator=(Gate&&) = delete;
  ~Gate();

  /// Waits until no other writer holds the gate, and enters. TryLater if the limit of `waiting`
  /// passes first.
  Result<Hold> enter();
  /// Removes the lock file, for when there is no database to guard. Writers that wait for the gate
  /// create a new file when their turn comes. Requires: the hold is of this gate.
  void remove_file(const Hold& hold);

 private:
  Gate(int descriptor, std::string path, Waiting waiting);
  Status lock();
  int descriptor_;
  std::string path_;
  LockWait lock_wait_;
};

}  // namespace tw::db
