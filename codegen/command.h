// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs one of the system's tools (ld, objdump) to its end or a deadline. Thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw::codegen {

/// Runs the command `argv`, whose program argv[0] is searched on PATH, with an empty input and in a
/// process group of its own. Returns its standard output. Environment: the program cannot be
/// started, prints more than 64 MiB, exceeds the time-out (it is then killed), or fails; the
/// message carries the end of its standard error. TryLater: a SIGTERM, SIGINT, SIGHUP or SIGKILL
/// from outside ended the program.
Result<std::string> run_command(const std::vector<std::string>& argv, int64_t timeout_ns);

/// A file in memory. Programs that this process starts can open the file by its path while the
/// value lives.
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
