// SPDX-License-Identifier: Apache-2.0
#include "db/engine/gate.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tw::db {

Gate::Gate(int descriptor, std::string path, Waiting waiting)
    : descriptor_(descriptor), path_(path), lock_wait_(std::move(waiting), path) {}

Gate::Gate(Gate&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      lock_wait_(std::move(other.lock_wait_)) {}

Gate::~Gate() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Gate::Hold::~Hold() {
  if (descriptor_ >= 0) ::flock(descriptor_, LOCK_UN);
}

namespace {

Result<int> open_lock(const std::string& database_path) {
  const std::string lock_path = database_path + ".lock";
  // flock() needs only read access, so a lock file of another user can be used too.
  const int descriptor =
      ::open(lock_path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor >= 0) return descriptor;
  return fail(ErrorCode::Database,
              fmt::format("[open] {} cannot be written: {} ({}); check the permissions of the "
                          "directory, or name another database with --db",
                          database_path, lock_path, std::strerror(errno)));
}

bool is_removed(int descriptor) {
  struct stat status;
  return ::fstat(descriptor, &status) == 0 && status.st_nlink == 0;
}

}  // namespace

Result<Gate> Gate::open(const std::string& database_path, Waiting waiting) {
  TW_TRY(const int descriptor, open_lock(database_path));
  return Gate(descriptor, database_path, std::move(waiting));
}

Result<Gate::Hold> Gate::enter() {
  TW_RETURN_IF_ERROR(lock());
  // A lock on a removed file does not exclude a lock on the new file with the same name. So if the
  // locked file was removed, the new file is locked instead.
  while (is_removed(descriptor_)) {
    TW_TRY(const int present, open_lock(path_));
    ::close(std::exchange(descriptor_, present));
    TW_RETURN_IF_ERROR(lock());
  }
  return Hold(descriptor_);
}

Status Gate::lock() {
  lock_wait_.begin();
  while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK)
      return fail(
          ErrorCode::Database,
          fmt::format("[lock] {}.lock cannot be locked ({}); put the database on a local disk",
                      path_, std::strerror(errno)));
    if (!lock_wait_.wait())
      return fail(
          ErrorCode::TryLater,
          fmt::format("[lock] {} is being written by another process; try again when it has "
                      "finished (`fuser {}.lock` names it)",
                      path_, path_));
  }
  return {};
}

void Gate::remove_file(const Hold&) { ::unlink((path_ + ".lock").c_str()); }

}  // namespace tw::db
