// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Library is a shared object that is loaded from memory. The object goes through an
// anonymous file, so the cache directory may be read-only or mounted noexec. The object is
// unloaded with its last owner. Thread-safe once loaded.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/descriptor.h"

namespace tw::runtime {

struct LoadOptions {
  /// True: try a file in memory first (memfd_create). False: use the directories at once, as when
  /// the system refuses memfd_create().
  bool in_memory = true;
  /// Directories in which to put a private file that exists while the object is loaded. The first
  /// directory that works is used.
  std::vector<std::string> directories = {"/dev/shm", "/tmp", "/var/tmp"};
};

class Library {
 public:
  /// Loads a shared object from its bytes. Invalid: the bytes are no loadable object. Environment:
  /// there is no place to load the object from; the message says why each place failed.
  static Result<Library> load(std::string_view object, const LoadOptions& options = {});

  Library(Library&& other) noexcept;
  Library& operator=(Library&& other) noexcept;
  ~Library();

  /// Returns the address of an exported function. Invalid if the object exports no function of that
  /// name.
  Result<void*> symbol(const std::string& name) const;

 private:
  Library(Descriptor file, void* handle) : file_(std::move(file)), handle_(handle) {}

  Descriptor file_;
  void* handle_ = nullptr;
};

}  // namespace tw::runtime
