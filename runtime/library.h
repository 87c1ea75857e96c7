// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Library is a shared object that is loaded from memory. The object is loaded through an
// anonymous file, so the cache directory may be read-only or mounted noexec. The file is closed
// once the object is loaded, so a Library holds no file descriptor. The object is unloaded when the
// Library is destroyed. Thread-safe once loaded.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tw::runtime {

struct LoadOptions {
  /// True: the object is first written to a file in memory (memfd_create), and to `directories`
  /// only if that fails. False: only `directories` are used, as if the system refused
  /// memfd_create().
  bool in_memory = true;
  /// Directories for an unnamed file that holds the object while it is loaded. The first directory
  /// in which loading succeeds is used.
  std::vector<std::string> directories = {"/dev/shm", "/tmp", "/var/tmp"};
};

class Library {
 public:
  /// Loads a shared object from its bytes. Fails with Invalid if the bytes are no loadable object,
  /// or if every directory is mounted noexec. Fails with Environment if no place can hold the file,
  /// or if the process has no file descriptors or memory left. The message says why each place
  /// failed.
  static Result<Library> load(std::string_view object, const LoadOptions& options = {});

  Library(Library&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Library& operator=(Library&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Library();

  /// Returns the address of an exported function. Fails with Invalid if the object exports no
  /// function with this name.
  Result<void*> symbol(const std::string& name) const;

 private:
  explicit Library(void* handle) : handle_(handle) {}

  void* handle_ = nullptr;
};

}  // namespace tw::runtime
