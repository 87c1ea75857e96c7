// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/external_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/integer.h"
#include "graph/onnx/names.h"

namespace tw::graph::onnx {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }

 private:
  int number_;
};

tl::unexpected<Error> refused(const std::string& location, const std::string& why) {
  return fail(ErrorCode::Invalid,
              fmt::format("[onnx] external data '{}': {}", printable(location), why));
}

tl::unexpected<Error> unreadable(const std::string& location, int error) {
  return fail(ErrorCode::Environment, fmt::format("[onnx] external data '{}' cannot be read: {}",
                                                  printable(location), std::strerror(error)));
}

/// Opens a path below a folder. The kernel resolves the path (openat2), so that nobody can change
/// it between a check and its use. Opening a FIFO does not block. The error is a value of errno;
/// EXDEV means that the path leads out of the folder.
tl::expected<Descriptor, int> open_below(const std::string& folder, const std::string& path) {
  const Descriptor root(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (root.get() < 0) return tl::unexpected(errno);
  open_how how = {};
  how.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const long number = syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how);
  if (number < 0) return tl::unexpected(errno);
  return Descriptor(static_cast<int>(number));
}

/// True if the path is relative and, by its text alone, stays below the folder that it is relative
/// to. Symbolic links are not resolved.
bool stays_below(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return path.is_relative() && (normal.empty() || *normal.begin() != "..");
}

Result<Descriptor> open_location(const DataFolders& folders, const std::string& location) {
  if (!stays_below(location)) return refused(location, "it lies outside of the model's folder");
  auto opened = open_below(folders.folder, location);
  if (!opened && opened.error() == EXDEV && !folders.real.empty()) {
    std::error_code error;
    const fs::path real = fs::canonical(fs::path(folders.folder) / location, error);
    const fs::path below = error ? fs::path("..") : real.lexically_relative(folders.real);
    if (stays_below(below)) opened = open_below(folders.real, below.string());
  }
  if (opened) return std::move(*opened);
  if (opened.error() == EXDEV)
    return refused(location, "a symbolic link leads out of the folders of the model");
  return unreadable(location, opened.error());
}

/// Returns the size of a regular file. Fails with Invalid for other files. Several hard links are
/// allowed, since caches share files by them.
Result<int64_t> size_of(const Descriptor& file, const std::string& location) {
  struct stat status;
  if (fstat(file.get(), &status) != 0) return unreadable(location, errno);
  if (!S_ISREG(status.st_mode)) return refused(location, "it is no regular file");
  return static_cast<int64_t>(status.st_size);
}

Status check_range(const ExternalRange& range, int64_t size, int64_t bytes) {
  if (range.offset < 0 || range.offset > size)
    return refused(range.location,
                   fmt::format("the offset {} is outside of its {} bytes", range.offset, size));
  const int64_t length = range.length.value_or(size - range.offset);
  if (length != bytes)
    return refused(range.location, fmt::format("{} bytes, expected {}", length, bytes));
  if (length > size - range.offset)
    return refused(range.location, fmt::format("{} bytes from {} on are more than its {} bytes",
                                               length, range.offset, size));
  return {};
}

}  // namespace

Result<std::vector<std::byte>> read_external(const DataFolders& folders, const ExternalRange& range,
                                             int64_t bytes) {
  if (folders.folder.empty())
    return refused(range.location, "the model has no folder to read it from");
  if (range.location.find('\0') != std::string::npos)
    return refused(range.location, "its name holds a zero byte");
  TW_TRY(const Descriptor file, open_location(folders, range.location));
  TW_TRY(const int64_t size, size_of(file, range.location));
  TW_RETURN_IF_ERROR(check_range(range, size, bytes));
  std::vector<std::byte> data(static_cast<size_t>(bytes));
  for (int64_t done = 0; done < bytes;) {
    const ssize_t count = pread(file.get(), data.data() + done, static_cast<size_t>(bytes - done),
                                range.offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unreadable(range.location, errno);
    if (count == 0) return refused(range.location, "it became shorter while it was read");
    done += count;
  }
  return data;
}

}  // namespace tw::graph::onnx
