// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files whose content is run as code. A file is read only if nobody but its trusted owner can have
// written it. Files are replaced atomically. Thread-safe.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/descriptor.h"

namespace tw::runtime {

/// An open file that passed the checks of open_private_file().
struct PrivateFile {
  Descriptor descriptor;
  int64_t bytes = 0;
};

/// Opens a regular file for reading, if the effective user (or root, if `root_too`) owns the file
/// and only the owner may write it. Its directory must likewise be writable only by its owner, who
/// is the effective user or root. All checks examine open descriptors, so replacing a file between
/// checks has no effect. Fails with NotCompiled if there is no such file, with Invalid if a check
/// fails or the file is larger than `max_bytes`, and with Environment if the system fails.
Result<PrivateFile> open_private_file(const std::string& path, bool root_too, int64_t max_bytes);

/// Reads a file that open_private_file() accepts, and returns its content. Fails with the errors of
/// open_private_file(), and with Invalid if the file shrinks while it is read.
Result<std::string> read_private_file(const std::string& path, bool root_too, int64_t max_bytes);

/// Checks that replacing `path` by a file does no harm. Fails with Usage if `path` is a device or a
/// pipe, or a symbolic link to one. For example, if /dev/null were replaced, every other program
/// would lose it. Fails with Usage if `path` is an SQLite database, because its records would be
/// lost.
Status check_replaceable(const std::string& path);

/// Checks that a file can be written at the path. Call this function before long work, so that the
/// error does not come after the work. Fails with the errors of check_replaceable(). Fails with
/// Usage for a directory; the message proposes a file named `example` in it. Fails with Environment
/// if the directory of the path does not exist or cannot be written.
Status check_output(const std::string& path, std::string_view example = "kernel.twart");

/// Writes the bytes to `path`, replacing an old file atomically: writes a temporary file beside
/// `path`, syncs it, renames it to `path`, and syncs the directory. The new file gets the
/// permissions of the old one, or 0644 minus the umask if there was no old file. Users other than
/// the owner never get write permission. If writing or renaming fails, no temporary file is left,
/// and an old file stays as it was. Fails with the errors of check_replaceable(), and with
/// Environment if the system fails.
Status replace_file(const std::string& path, std::string_view bytes);
/// Does the same as replace_file() above. The content of the file is that of all parts, one after
/// another.
Status replace_file(const std::string& path, std::span<const std::string_view> parts);
/// Does the same as replace_file() above, but syncs neither the file nor the directory. It is meant
/// for files that nobody reads after a crash of the system.
Status replace_scratch_file(const std::string& path, std::string_view bytes);

}  // namespace tw::runtime
