// SPDX-License-Identifier: Apache-2.0
#pragma once
// A MappedFile is the content of a file as read-only memory. Pages are read from the file when they
// are first touched, and processes that map the same file share them. The mapping stays valid after
// the descriptor is closed, and keeps the old content when another file is renamed to the path. If
// the file is truncated while it is mapped, reading the lost bytes ends the process with a bus
// error (SIGBUS). Movable; thread-safe.

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "runtime/private_file.h"

namespace tw::runtime {

class MappedFile {
 public:
  /// Maps a file. Fails with Environment if the system cannot map the file; the message names
  /// `path`.
  static Result<MappedFile> map(const PrivateFile& file, const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  /// Returns the content of the file, at an address that is a multiple of 4096.
  std::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}

  std::string_view bytes_;
};

}  // namespace tw::runtime
