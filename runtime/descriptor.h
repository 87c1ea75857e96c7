// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file descriptor that closes itself. Movable, not thread-safe.

#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace tw::runtime {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

/// Writes all bytes to the descriptor. Fails with Environment if the system fails; the message
/// names `path`.
Status write_all(int descriptor, const std::string& path, std::string_view bytes);

}  // namespace tw::runtime
