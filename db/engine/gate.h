// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the writer gate, a lock (flock) on a file beside the database. A process waits
// for this lock before it writes. SQLite polls its own locks. With these alone, some writers would
// wait for seconds while others write again and again. The kernel frees the lock when the process
// that holds it dies. Not thread-safe.

#include <string>
#include <utility>

#include "base/result.h"
#include "db/engine/waiting.h"

namespace tw::db {

class Gate {
 public:
  /// The right to write. The gate is held as long as the object exists.
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

  /// Waits until no other writer holds the gate, and then holds it. Fails with TryLater if the time
  /// limit of `waiting` passes first.
  Result<Hold> enter();
  /// Removes the lock file. Call this function if the database that the gate guards does not exist.
  /// Writers that wait for the gate create a new file when their turn comes. Requires: `hold` is of
  /// this gate.
  void remove_file(const Hold& hold);

 private:
  Gate(int descriptor, std::string path, Waiting waiting);
  Status lock();
  int descriptor_;
  std::string path_;
  LockWait lock_wait_;
};

}  // namespace tw::db
