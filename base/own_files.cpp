// SPDX-License-Identifier: Apache-2.0
#include "base/own_files.h"

#include <dlfcn.h>

#include <system_error>

namespace tw {

OwnFiles own_files() {
  OwnFiles files;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) files.program = program;
  // In a statically linked program dli_fname is argv[0], which may be relative to a working
  // directory that the process has left.
  Dl_info us;
  if (dladdr(reinterpret_cast<void*>(&own_files), &us) == 0 ||
      !std::filesystem::path(us.dli_fname).is_absolute())
    return files;
  const auto library = std::filesystem::canonical(us.dli_fname, error);
  if (!error && library != program) files.library = library;
  return files;
}

}  // namespace tw
