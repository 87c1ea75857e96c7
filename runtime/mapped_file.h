// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes of a file as memory that cannot be written: pages are read when they are first touched,
// and processes that map the same file share them. The mapping outlives the descriptor, and sees
// the same file after another one took its name; a file that is cut short while it is mapped is a
// bus error. Movable; thread-safe.

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "runtime/private_file.h"

namespace tw::runtime {

class MappedFile {
 public:
  /// Environment: the system cannot map it. `path` is for the message.
  static Result<MappedFile> map(const PrivateFile& file, const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  /// The content; its address is a multiple of 4096.
  std::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}

  std::string_view bytes_;
};

}  // namespace tw::runtime
