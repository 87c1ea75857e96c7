// SPDX-License-Identifier: Apache-2.0
#pragma once
// A library of a vendor that is installed on this machine. It is opened at run time, so that the
// program starts without it, and never closed, since it has threads of its own. Thread-safe.

#include <string>
#include <vector>

#include "base/result.h"

namespace tw::bench {

class VendorLibrary {
 public:
  /// Opens the first of the names in the first directory that has one, else in the loader's search
  /// path. Fails with Environment, with `remedy` in the message, if there is none.
  static Result<VendorLibrary> open(const std::vector<std::string>& names,
                                    const std::vector<std::string>& directories,
                                    const std::string& remedy);

  /// Looks up a function. Fails with Environment if there is none of that name.
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
