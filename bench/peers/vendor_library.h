// SPDX-License-Identifier: Apache-2.0
#pragma once
// A shared library of a hardware vendor. It is opened at run time, so that the program also starts
// where it is not installed. It is never closed, since it has threads of its own. Thread-safe.

#include <string>
#include <vector>

#include "base/result.h"

namespace tw::bench {

class VendorLibrary {
 public:
  /// Opens a library by the first of the `names` that is found. Directories are tried in order, and
  /// then the loader's search path. Environment, with `remedy` in the message, if no name is found.
  static Result<VendorLibrary> open(const std::vector<std::string>& names,
                                    const std::vector<std::string>& directories,
                                    const std::string& remedy);

  /// Looks up a function of the library and stores its address. Environment if the library has no
  /// function of that name.
  template <typename Function>
  Status find(const char* name, Function*& function) const {
    TW_TRY(void* const address, symbol(name));
    function = reinterpret_cast<Function*>(address);
    return {};
  }

 private:
  VendorLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  Result<void*> symbol(const char* name) const;

  void* handle_;
  std::string path_;
};

}  // namespace tw::bench
