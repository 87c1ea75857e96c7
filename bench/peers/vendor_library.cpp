// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/vendor_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace tw::bench {

Result<VendorLibrary> VendorLibrary::open(const std::vector<std::string>& names,
                                          const std::vector<std::string>& directories,
                                          const std::string& remedy) {
  std::string reason = "no directory has it";
  const auto opened = [&](const std::string& path) {
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) reason = dlerror();
    return handle;
  };
  std::error_code ignored;
  for (const std::string& directory : directories)
    for (const std::string& name : names) {
      const std::string path = directory + "/" + name;
      if (!std::filesystem::exists(path, ignored)) continue;
      if (void* const handle = opened(path)) return VendorLibrary(handle, path);
    }
  for (const std::string& name : names)
    if (void* const handle = opened(name)) return VendorLibrary(handle, name);
  return fail(ErrorCode::Environment,
              fmt::format("[bench] {} cannot be opened ({}): {}", names[0], reason, remedy));
}

Result<void*> VendorLibrary::symbol(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (address == nullptr)
    return fail(ErrorCode::Environment,
                fmt::format("[bench] {} has no {}: it is of another version", path_, name));
  return address;
}

}  // namespace tw::bench
