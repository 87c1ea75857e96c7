// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs one of the system's tools (ld, objdump) until it ends or its time is up. Thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/stop.h"

namespace tw::codegen {

/// Runs the command `argv` with an empty standard input, in a process group of its own, and returns
/// its standard output. The program argv[0] is searched for on PATH.
///
/// Fails with Environment if the program cannot be started, prints more than 64 MiB, runs longer
/// than `timeout_ns`, or ends by a signal or with an exit code other than 0. A program that prints
/// too much or runs too long is killed. The message has the end of its standard error. Fails with
/// TryLater if SIGTERM, SIGINT, SIGHUP or SIGKILL ended the program and this process did not send
/// the signal. Fails with Environment if the exit code is unknown, because this process ignores
/// SIGCHLD or reaps its children elsewhere. If the token stops, the process group is killed, and
/// the error is that of stopped().
Result<std::string> run_command(const std::vector<std::string>& argv, int64_t timeout_ns,
                                const StopToken& stop = {});

/// A file in memory. As long as the MemoryFile lives, programs that this process starts can open it
/// at path().
class MemoryFile {
 public:
  static Result<MemoryFile> create(const char* name, std::string_view content = {});
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile(const MemoryFile&) = delete;
  ~MemoryFile();

  const std::string& path() const { return path_; }
  Result<std::string> content() const;

 private:
  MemoryFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  int descriptor_ = -1;
  std::string path_;
};

}  // namespace tw::codegen
