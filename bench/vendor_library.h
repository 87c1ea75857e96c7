// SPDX-License-Identifier: Apache-2.0
#pragma once
// A library of the machine's, opened at run time and never closed: it has threads of its own. The
// program starts without it. Thread-safe.

#include <string>
#include <vector>

#include "base/result.h"

namespace tw::bench {

class VendorLibrary {
 public:
  /// The first of the names in the first directory that has one, else where the loader looks.
  /// Environment, with `remedy`, where there is none.
  static Result<VendorLibrary> open(const std::vector<std::string>& names,
                                    const std::vector<std::string>& directories,
                                    const std::string& remedy);

  /// Environment: it has no function of that name.
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
