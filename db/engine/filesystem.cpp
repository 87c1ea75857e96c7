// SPDX-License-Identifier: Apache-2.0
#include "db/engine/filesystem.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tw::db {
namespace {

// Values of f_type, from statfs(2) and the kernel's include/uapi/linux/magic.h.
constexpr std::pair<int64_t, const char*> unsafe_types[] = {
    {0x6969, "NFS"},      {0x65735546, "FUSE"}, {0x517B, "SMB"},    {0xFE534D42, "SMB2"},
    {0xFF534D42, "CIFS"}, {0x5346414F, "AFS"},  {0x01021997, "9P"}, {0x00C36400, "Ceph"},
};

}  // namespace

Result<int64_t> filesystem_type(const std::string& directory) {
  struct statfs info;
  if (::statfs(directory.c_str(), &info) != 0)
    return fail(ErrorCode::Database,
                fmt::format("[open] the file system of {} cannot be asked ({}); check the path",
                            directory, std::strerror(errno)));
  return static_cast<int64_t>(static_cast<uint32_t>(info.f_type));
}

std::string unsafe_filesystem(int64_t type) {
  for (const auto& [unsafe, name] : unsafe_types)
    if (unsafe == type) return name;
  return {};
}

// The bug (https://sqlite.org/wal.html#walresetbug) is in the versions 3.7.0 to 3.51.2, except
// 3.44.6 and 3.50.7 and later patches of these two.
bool has_wal_reset_bug(int64_t version) {
  if (version < 3'007'000 || version >= 3'051'003) return false;
  const bool patched_44 = version >= 3'044'006 && version < 3'045'000;
  const bool patched_50 = version >= 3'050'007 && version < 3'051'000;
  return !patched_44 && !patched_50;
}

std::string describe_sqlite(int64_t version) {
  const std::string name =
      fmt::format("SQLite {}.{}.{}", version / 1'000'000, version / 1'000 % 1'000, version % 1'000);
  if (has_wal_reset_bug(version))
    return name +
           ": can corrupt WAL files with several writers; databases use the rollback journal, "
           "which is not affected";
  return name + ": databases use the rollback journal";
}

int64_t sqlite_version_number() { return sqlite3_libversion_number(); }

}  // namespace tw::db
