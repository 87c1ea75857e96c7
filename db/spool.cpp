// SPDX-License-Identifier: Apache-2.0
#include "db/spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "db/engine/gate.h"
#include "db/tables/schema.h"
#include "db/transfer.h"

namespace tw::db {
namespace {

namespace fs = std::filesystem;

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

Status write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(ErrorCode::Database, std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (::fsync(descriptor) != 0) return fail(ErrorCode::Database, std::strerror(errno));
  return {};
}

// True if the file is empty or ends with a complete line. A writer that was killed may have left
// half a line.
bool ends_in_a_line(int descriptor, off_t size) {
  char last = '\n';
  return size == 0 || (::pread(descriptor, &last, 1, size - 1) == 1 && last == '\n');
}

Error cannot_write(const std::string& path, std::string_view why) {
  return {
      ErrorCode::Database,
      fmt::format("[spool] {} cannot be written: {}; free some space, or name another directory",
                  path, why)};
}

Error cannot_read(const std::string& path) {
  return {ErrorCode::Database,
          fmt::format("[spool] {} cannot be read; check its permissions", path)};
}

}  // namespace

Spool::Spool(std::string path, Waiting waiting)
    : path_(std::move(path)), waiting_(std::move(waiting)) {}

std::string Spool::spool_path(const std::string& database_path) {
  return database_path + ".spool.jsonl";
}

bool Spool::empty() const {
  std::error_code error;
  return path_.empty() || !fs::exists(path_, error) || fs::file_size(path_, error) == 0;
}

Status Spool::append(std::span<const Record> records) {
  if (records.empty()) return {};
  if (path_.empty())
    return fail(ErrorCode::Database,
                "[spool] there is no directory in which records could wait; name one");
  TW_TRY(Gate gate, Gate::open(path_, waiting_));
  TW_TRY(const Gate::Hold hold, gate.enter());
  const File file(
      ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  struct stat before;
  if (file.descriptor() < 0 || ::fstat(file.descriptor(), &before) != 0)
    return tl::unexpected(cannot_write(path_, std::strerror(errno)));
  std::string lines;
  if (!ends_in_a_line(file.descriptor(), before.st_size)) lines += '\n';
  for (const Record& record : records) lines += to_json(record) + '\n';
  if (const Status status = write_all(file.descriptor(), lines); !status) {
    // If truncating fails too, drain() will quarantine the incomplete line.
    if (::ftruncate(file.descriptor(), before.st_size) != 0) errno = 0;
    return tl::unexpected(cannot_write(path_, status.error().message));
  }
  if (before.st_size == 0) sync_directory_of(path_);
  return {};
}

Result<AppendSummary> Spool::drain(Store& store) {
  if (empty()) return AppendSummary{};
  TW_TRY(Gate gate, Gate::open(path_, waiting_));
  TW_TRY(const Gate::Hold hold, gate.enter());
  if (empty()) return AppendSummary{};
  std::ifstream lines(path_, std::ios::binary);
  if (!lines) return tl::unexpected(cannot_read(path_));
  TW_TRY(const AppendSummary summary, import_spooled(store, lines));
  lines.close();
  std::error_code error;
  fs::remove(path_, error);
  if (error) return tl::unexpected(cannot_write(path_, error.message()));
  return summary;
}

}  // namespace tw::db
