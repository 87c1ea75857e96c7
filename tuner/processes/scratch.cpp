// SPDX-License-Identifier: Apache-2.0
#include "tuner/processes/scratch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/text.h"

namespace tw::tuner {
namespace {

namespace fs = std::filesystem;

/// Opens a directory. Returns -1 if it cannot be opened, is a link or belongs to another user.
int open_own_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status = {};
  if (fd >= 0 && ::fstat(fd, &status) == 0 && status.st_uid == ::geteuid()) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

/// True if the path still leads to the file or directory that `fd` has open.
bool is_at(const std::string& path, int fd) {
  struct stat there = {}, here = {};
  return ::lstat(path.c_str(), &there) == 0 && ::fstat(fd, &here) == 0 &&
         there.st_ino == here.st_ino && there.st_dev == here.st_dev;
}

/// Returns the reason why no files can be put into `parent`; empty if they can.
std::string unusable(const std::string& parent, int64_t least_free_bytes) {
  struct statvfs status = {};
  if (::statvfs(parent.c_str(), &status) != 0) return std::strerror(errno);
  const auto free_bytes = static_cast<int64_t>(status.f_bavail * status.f_frsize);
  if (status.f_blocks > 0 && free_bytes < least_free_bytes)  // 0: the file system does not count
                                                             // blocks
    return fmt::format("{} KiB are free, {} KiB are needed", free_bytes >> 10,
                       least_free_bytes >> 10);
  return {};
}

}  // namespace

Result<Scratch> Scratch::make_in(const std::string& parent) {
  // Another run may remove the new directory as abandoned before it is locked, so several attempts
  // are made.
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::string path = (fs::path(parent) / (std::string(scratch_prefix) + "XXXXXX")).string();
    if (::mkdtemp(path.data()) == nullptr) break;
    const int lock = open_own_directory(path);
    if (lock < 0) continue;
    if (::flock(lock, LOCK_EX) == 0 && is_at(path, lock)) return Scratch(std::move(path), lock);
    ::rmdir(path.c_str());
    ::close(lock);
  }
  return fail(ErrorCode::Environment, std::strerror(errno));
}

Result<Scratch> Scratch::make(const ScratchOptions& options) {
  std::vector<std::string> problems;
  for (const std::string& parent : options.parents) {
    std::string problem = unusable(parent, options.least_free_bytes);
    if (problem.empty()) {
      remove_abandoned(parent);
      auto made = make_in(parent);
      if (made) return made;
      problem = made.error().message;
    }
    problems.push_back(fmt::format("{}: {}", parent, problem));
  }
  return fail(ErrorCode::Environment,
              fmt::format("[tune] no directory for temporary files ({}): set TMPDIR to one that is "
                          "writable",
                          join(problems, "; ")));
}

Scratch::Scratch(Scratch&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

Scratch& Scratch::operator=(Scratch&& other) noexcept {
  if (this == &other) return *this;
  remove();
  path_ = std::exchange(other.path_, {});
  lock_ = std::exchange(other.lock_, -1);
  return *this;
}

Scratch::~Scratch() { remove(); }

void Scratch::remove() {
  if (lock_ < 0) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  ::close(std::exchange(lock_, -1));
}

ScratchOptions temporary_places() {
  std::error_code error;
  const fs::path chosen = fs::temp_directory_path(error);
  // A user whose $TMPDIR is no directory is told so by the message of make().
  if (error) return {{"$TMPDIR"}};
  return {{chosen.string(), "/var/tmp"}};
}

int remove_abandoned(const std::string& parent) {
  int removed = 0;
  std::error_code error;
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with(scratch_prefix)) continue;
    const std::string path = at->path().string();
    const int lock = open_own_directory(path);
    if (lock < 0) continue;
    if (::flock(lock, LOCK_EX | LOCK_NB) == 0 && is_at(path, lock)) {
      std::error_code ignored;
      removed += fs::remove_all(path, ignored) > 0;
    }
    ::close(lock);
  }
  return removed;
}

}  // namespace tw::tuner
