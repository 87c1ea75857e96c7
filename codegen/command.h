// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs one of the system's tools (ld, objdump) to its end or a deadline. Thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw::codegen {

/// Runs argv, argv[0] searched on PATH, with an empty input, in a group of its own; returns what it
/// printed to standard output, up to 64 MiB. Environment: it cannot be started, prints more,
/// outlives the time-out (it is killed), or ends badly; the message carries the end of its standard
/// error. TryLater: SIGTERM, SIGINT, SIGHUP or SIGKILL from outside ended it.
Result<std::string> run_command(const std::vector<std::string>& argv, int64_t timeout_ns);

/// A file in memory that other programs of this process open by path while the value lives.
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
