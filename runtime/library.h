// SPDX-License-Identifier: Apache-2.0
#pragma once
// A shared object that is loaded from memory: through an anonymous file, so that a cache directory
// that is read-only or mounted noexec does not matter. Unloaded with its last owner. Thread-safe
// once loaded.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/descriptor.h"

namespace tw::runtime {

struct LoadOptions {
  bool in_memory =
      true;  ///< false: go straight to the directories, as where memfd_create is refused
  /// Directories for a private file that exists while the object is loaded; the first that works is
  /// used.
  std::vector<std::string> directories = {"/dev/shm", "/tmp", "/var/tmp"};
};

class Library {
 public:
  /// Invalid: the bytes are no loadable object; Environment: no place to load it from, naming each.
  static Result<Library> load(std::string_view object, const LoadOptions& options = {});

  Library(Library&& other) noexcept;
  Library& operator=(Library&& other) noexcept;
  ~Library();

  /// The address of an exported function; Invalid if there is none of that name.
  Result<void*> symbol(const std::string& name) const;

 private:
  Library(Descriptor file, void* handle) : file_(std::move(file)), handle_(handle) {}

  Descriptor file_;
  void* handle_ = nullptr;
};

}  // namespace tw::runtime
