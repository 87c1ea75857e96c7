// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/device_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace tw::tuner {
namespace {

constexpr std::chrono::milliseconds between_looks{1};

// Lock files are opened for reading. This suffices for a lock, and is allowed for the file of
// another user. Links are not followed, because anybody may put a link into the shared directory.
constexpr int how_opened = O_RDONLY | O_NOFOLLOW | O_CLOEXEC;

Result<std::shared_ptr<const int>> open_file(const std::string& path) {
  int fd = ::open(path.c_str(), how_opened);
  // Another tuner may create the file first.
  if (fd < 0 && errno == ENOENT) fd = ::open(path.c_str(), how_opened | O_CREAT | O_EXCL, 0644);
  if (fd < 0 && errno == EEXIST) fd = ::open(path.c_str(), how_opened);
  const int problem = errno;
  std::shared_ptr<const int> file(new int(fd), [](const int* open) {
    if (*open >= 0) ::close(*open);
    delete open;
  });
  struct stat info = {};
  if (fd >= 0 && ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return file;
  return fail(ErrorCode::Environment,
              fmt::format("[device] the lock '{}': {}", path,
                          fd < 0 ? std::strerror(problem) : "it is no file"));
}

/// Locks the file. Returns false if the deadline passed first.
Result<bool> take_file(int fd, const std::string& path, const Clock& clock,
                       const Deadline& deadline) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return fail(ErrorCode::Environment,
                  fmt::format("[device] the lock '{}': {}", path, std::strerror(errno)));
    if (deadline.stop.is_stopped())
      return fail(ErrorCode::Interrupted,
                  "[device] interrupted while another tuner measured on it");
    if (clock() >= deadline.at_ns) return false;
    deadline.tell_of_waiting();
    std::this_thread::sleep_for(between_looks);
  }
  return true;
}

}  // namespace

std::string device_lock_name(const codegen::Backend& backend, int index) {
  return index == 0 ? std::string(backend.name) : fmt::format("{}-{}", backend.name, index);
}

Result<DeviceLock> DeviceLock::open(const std::string& directory, std::string_view device) {
  DeviceLock lock;
  lock.path_ = fmt::format("{}/tilewright-{}", directory, device);
  TW_TRY(lock.device_, open_file(lock.path_ + ".lock"));
  TW_TRY(lock.queue_, open_file(lock.path_ + ".queue"));
  return lock;
}

Result<DeviceTurn> DeviceLock::take(const Clock& clock, const Deadline& deadline) {
  // The tuner that is first in the queue holds the lock of `queue_` while it waits for the device.
  TW_TRY(const bool queued, take_file(*queue_, path_ + ".queue", clock, deadline));
  Result<bool> taken = false;
  if (queued) {
    taken = take_file(*device_, path_ + ".lock", clock, deadline);
    ::flock(*queue_, LOCK_UN);
  }
  TW_RETURN_IF_ERROR(taken);
  if (!*taken)
    return fail(ErrorCode::TryLater,
                fmt::format("[device] another tuner measures on it: wait until it is done, or end "
                            "who holds '{}.lock' (fuser tells)",
                            path_));
  return DeviceTurn(device_.get(), [file = device_](const int* fd) { ::flock(*fd, LOCK_UN); });
}

Result<DeviceTurn> turn_on(const runtime::Device& device, const Clock& clock) {
  constexpr int64_t patience_ns = 60'000'000'000;
  const std::string name =
      device_lock_name(codegen::backend_of(device.facts()), device.facts().index);
  TW_TRY(DeviceLock lock, DeviceLock::open(places_of_all, name));
  return lock.take(clock, {clock() + patience_ns});
}

}  // namespace tw::tuner
