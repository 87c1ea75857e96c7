// SPDX-License-Identifier: Apache-2.0
#pragma once
// Paths of the files that contain the running code. Other parts of an installation are found
// relative to these files. Thread-safe.

#include <filesystem>
#include <optional>

namespace tw {

struct OwnFiles {
  /// The program of this process, which may be an interpreter such as python3; nullopt if the
  /// system does not tell it.
  std::optional<std::filesystem::path> program;
  /// The shared library that contains this function; nullopt if the program itself contains it, or
  /// if the library was loaded by a relative path.
  std::optional<std::filesystem::path> library;
};

/// Returns the paths, absolute and without symbolic links.
OwnFiles own_files();

}  // namespace tw
