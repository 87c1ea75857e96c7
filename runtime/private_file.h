// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files whose content we run: read only when nobody else can have written them, replaced
// atomically. Thread-safe.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/descriptor.h"

namespace tw::runtime {

/// An open file that was found trustworthy.
struct PrivateFile {
  Descriptor descriptor;
  int64_t bytes = 0;
};

/// Opens a regular file that belongs to the effective user (or to root, if `root_too`),
/// that only its owner may write, in a directory of the same kind. Everything is asked of open
/// descriptors, so that a file swapped meanwhile changes nothing. NotCompiled: no such file;
/// Invalid: refused, or larger than `max_bytes`; Environment: the system failed.
Result<PrivateFile> open_private_file(const std::string& path, bool root_too, int64_t max_bytes);

/// The content of such a file.
Result<std::string> read_private_file(const std::string& path, bool root_too, int64_t max_bytes);

/// Fails with Usage where a device or a pipe is at `path`, or what a symbolic link there leads to
/// is one: a file that replaced it would take it from everything else that uses it.
Status check_replaceable(const std::string& path);

/// Checks before the work that a file can be made at the path, so that the error does not come
/// after it. Usage for a device or a pipe, and, naming `example` in it, for a directory; else
/// Environment.
Status check_output(const std::string& path, std::string_view example = "kernel.twart");

/// Fails where check_replaceable() does. Writes a temporary file beside `path`, syncs it, renames
/// it to `path`, and syncs the directory. The file has the permissions of the one that it replaces,
/// else those that the umask leaves of 0644; others than its owner may never write it. On failure
/// nothing is left behind and an old file stays as it was.
Status replace_file(const std::string& path, std::string_view bytes);
/// The same for a file that consists of these parts, one behind the other.
Status replace_file(const std::string& path, std::span<const std::string_view> parts);

}  // namespace tw::runtime
