// SPDX-License-Identifier: Apache-2.0
#pragma once
// A shared library of a hardware vendor. It is opened at run time, so that the program also starts
// on machines without the library. It is never closed, because its threads may still be running.
// Thread-safe.

#include <string>
#include <vector>

#include "base/result.h"

namespace tw::bench {

class VendorLibrary {
 public:
  /// Opens the first library that is found. All `names` are tried in each of the directories in
  /// turn, then in the loader's search path. Fails with Environment if no library can be opened;
  /// the message ends with `remedy`, which says what to do.
  static Result<VendorLibrary> open(const std::vector<std::string>& names,
                                    const std::vector<std::string>& directories,
                                    const std::string& remedy);

  /// Sets `function` to the address of the library's function `name`. Fails with Environment if the
  /// library has no such function.
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
