// SPDX-License-Identifier: Apache-2.0
#include "runtime/private_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "db/transfer.h"

namespace tw::runtime {
namespace {

tl::unexpected<Error> system_error(std::string_view what, const std::string& path) {
  const int code = errno;
  return fail(ErrorCode::Environment,
              fmt::format("[file] cannot {} '{}': {}", what, path, std::strerror(code)));
}

tl::unexpected<Error> refused(const std::string& path, std::string_view why) {
  return fail(ErrorCode::Invalid, fmt::format("[file] refuses to read '{}': {}", path, why));
}

std::string directory_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Checks that a trusted user owns the file or directory and that nobody else may write it. Others
// may read it, because code is no secret.
Status check_owner(int descriptor, const std::string& path, std::string_view what, bool root_too) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return system_error("examine", path);
  if (status.st_uid != geteuid() && !(root_too && status.st_uid == 0))
    return refused(
        path, fmt::format("{} belongs to user {}, expected {}; compile the kernel yourself", what,
                          status.st_uid, geteuid()));
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return refused(path, fmt::format("{} has mode {:o}, others may write it; run chmod go-w", what,
                                     status.st_mode & 07777));
  return {};
}

Result<int64_t> size_of_regular(int descriptor, const std::string& path, int64_t max_bytes) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return system_error("examine", path);
  if (!S_ISREG(status.st_mode)) return refused(path, "it is no regular file");
  if (status.st_size > max_bytes)
    return refused(path,
                   fmt::format("it has {} bytes, expected at most {}", status.st_size, max_bytes));
  return status.st_size;
}

Result<std::string> read_all(const PrivateFile& file, const std::string& path) {
  std::string bytes(static_cast<size_t>(file.bytes), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = read(file.descriptor.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("read", path);
    if (count == 0) return refused(path, "it shrank while it was read");
    done += static_cast<size_t>(count);
  }
  return bytes;
}

// Permissions of new files. Everybody may read code, but only its owner may change it, because
// check_owner() refuses files that others may write.
constexpr mode_t most_permissions = 0755, usual_permissions = 0644;

/// Returns the permissions of the regular file at `path`, without write permission for others;
/// nullopt if there is no such file.
std::optional<mode_t> permissions_of(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status.st_mode & most_permissions;
}

/// Creates a new file beside `path` and sets `temporary` to its name. mkstemp() would ignore the
/// umask and give the file mode 0600.
Descriptor create_beside(const std::string& path, mode_t permissions, std::string& temporary) {
  static std::atomic<unsigned> next{0};
  for (;;) {
    temporary = fmt::format("{}.{}-{}", path, getpid(), next++);
    Descriptor file(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, permissions));
    if (file || errno != EEXIST) return file;
  }
}

/// Yes if the file must survive a crash of the system.
enum class Synced { No, Yes };

Status write_parts(int descriptor, const std::string& path, std::span<const std::string_view> parts,
                   Synced synced) {
  for (const std::string_view part : parts) TW_RETURN_IF_ERROR(write_all(descriptor, path, part));
  if (synced == Synced::Yes && fsync(descriptor) != 0) return system_error("sync", path);
  return {};
}

Status replace(const std::string& path, std::span<const std::string_view> parts, Synced synced) {
  TW_RETURN_IF_ERROR(check_replaceable(path));
  const std::optional<mode_t> former = permissions_of(path);
  std::string temporary;
  const Descriptor file = create_beside(path, former.value_or(usual_permissions), temporary);
  if (!file) return system_error("create", temporary);
  Status written = write_parts(file.get(), temporary, parts, synced);
  if (written && former && fchmod(file.get(), *former) != 0)
    written = system_error("change the mode of", temporary);
  if (written && std::rename(temporary.c_str(), path.c_str()) != 0)
    written = system_error("replace", path);
  if (!written) {
    unlink(temporary.c_str());
    return written;
  }
  if (synced == Synced::No) return {};
  const std::string directory = directory_of(path);
  const Descriptor folder(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // The file is in place. A directory that may not be read, or a file system without such a sync,
  // leaves only the time open at which the name is on disk.
  if (folder && fsync(folder.get()) != 0 && errno != EINVAL && errno != EOPNOTSUPP)
    return system_error("sync", directory);
  return {};
}

/// True if `path` is a file of an SQLite database.
bool is_database(const std::string& path) {
  std::array<char, db::database_magic.size()> beginning;
  std::ifstream file(path, std::ios::binary);
  return file.read(beginning.data(), beginning.size()) &&
         std::string_view(beginning.data(), beginning.size()) == db::database_magic;
}

}  // namespace

Result<PrivateFile> open_private_file(const std::string& path, bool root_too, int64_t max_bytes) {
  const std::string directory = directory_of(path);
  const Descriptor folder(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string name = std::filesystem::path(path).filename().string();
  // With O_NONBLOCK, opening a FIFO does not wait for a process that writes to it.
  Descriptor file(
      folder ? openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
             : -1);
  if (!file && errno == ENOENT)
    return fail(ErrorCode::NotCompiled, fmt::format("[file] '{}' does not exist", path));
  if (!file && errno == ELOOP) return refused(path, "it is a symbolic link");
  if (!file) return system_error("open", path);
  // The directory may belong to root even if the file may not, because then only root can replace
  // files in it.
  TW_RETURN_IF_ERROR(check_owner(folder.get(), path, "its directory", true));
  TW_RETURN_IF_ERROR(check_owner(file.get(), path, "the file", root_too));
  TW_TRY(const int64_t bytes, size_of_regular(file.get(), path, max_bytes));
  return PrivateFile{std::move(file), bytes};
}

Result<std::string> read_private_file(const std::string& path, bool root_too, int64_t max_bytes) {
  TW_TRY(const PrivateFile file, open_private_file(path, root_too, max_bytes));
  return read_all(file, path);
}

Status write_all(int descriptor, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("write", path);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

Status check_replaceable(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) return {};
  const bool is_file = S_ISREG(status.st_mode);
  if (is_file && !is_database(path)) return {};
  return fail(ErrorCode::Usage,
              fmt::format("[output] '{}' is {}", path,
                          is_file ? "a database, whose records would be lost: name another file"
                                  : "a device or a pipe, which would be replaced: name a file"));
}

Status check_output(const std::string& path, std::string_view example) {
  std::error_code error;
  const auto cannot = [&](const std::string& why) {
    return fail(ErrorCode::Environment,
                fmt::format("[output] '{}' cannot be written: {}", path, why));
  };
  if (std::filesystem::is_directory(path, error))
    return fail(ErrorCode::Usage,
                fmt::format("[output] '{}' is a directory: name a file in it, such as '{}'", path,
                            (std::filesystem::path(path) / example).string()));
  TW_RETURN_IF_ERROR(check_replaceable(path));
  const auto folder = std::filesystem::absolute(path, error).parent_path();
  if (!std::filesystem::is_directory(folder, error))
    return cannot(fmt::format("there is no directory '{}': make it", folder.string()));
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return cannot(folder.string() + ": " + std::strerror(errno));
}

Status replace_file(const std::string& path, std::string_view bytes) {
  return replace(path, std::span(&bytes, 1), Synced::Yes);
}

Status replace_file(const std::string& path, std::span<const std::string_view> parts) {
  return replace(path, parts, Synced::Yes);
}

Status replace_scratch_file(const std::string& path, std::string_view bytes) {
  return replace(path, std::span(&bytes, 1), Synced::No);
}

}  // namespace tw::runtime
