// SPDX-License-Identifier: Apache-2.0
#include "db/opening.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "db/filesystem.h"
#include "db/schema.h"

namespace tw::db {
namespace {

namespace fs = std::filesystem;

Error unwritable(const std::string& path, std::string_view why) {
  return {ErrorCode::Database,
          fmt::format("[open] {} cannot be written: {}; check the permissions, or name another "
                      "database with --db",
                      path, why)};
}

Status prepare_directory(const std::string& path, const StoreOptions& options) {
  const std::string directory = fs::path(path).parent_path();
  std::error_code error;
  if (options.create_directories) fs::create_directories(directory, error);
  if (error) return tl::unexpected(unwritable(path, error.message()));
  if (!fs::is_directory(directory, error))
    return fail(ErrorCode::Database,
                fmt::format("[open] {} cannot be written: there is no directory {}; make it, or "
                            "name another database with --db",
                            path, directory));
  TW_TRY(const int64_t type, options.filesystem(directory));
  const std::string unsafe = unsafe_filesystem(type);
  if (!unsafe.empty() && !options.allow_network_filesystem)
    return fail(
        ErrorCode::Database,
        fmt::format("[open] {} is on {}, where locks do not hold between processes; put the "
                    "database on a local disk and merge it with `tilewright db merge`",
                    path, unsafe));
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK, AT_EACCESS) != 0)
    return tl::unexpected(unwritable(path, directory + ": " + std::strerror(errno)));
  return {};
}

// The file gets its name when it is complete, so that a process killed here leaves nothing under
// it.
Status create_file(const std::string& path, const StoreOptions& options) {
  const std::string fresh = path + ".new";
  std::error_code error;
  fs::remove(fresh, error);
  fs::remove(fresh + "-journal", error);
  {
    TW_TRY(Connection connection,
           Connection::open(
               fresh,
               {.create = true, .writable = true, .vfs = options.vfs, .waiting = options.waiting}));
    TW_RETURN_IF_ERROR(create_schema(connection));
  }
  fs::rename(fresh, path, error);
  if (error) return tl::unexpected(unwritable(path, error.message()));
  sync_directory_of(path);
  return {};
}

Status create_if_absent(const std::string& path, Gate& gate, const StoreOptions& options) {
  if (fs::exists(path)) return {};
  TW_TRY(const Gate::Hold hold, gate.enter());
  return fs::exists(path) ? Status() : create_file(path, options);
}

Status check_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    return fail(
        ErrorCode::Database,
        fmt::format("[open] {} does not exist; an existing database was expected; `tilewright "
                    "tune` creates one, --db names another",
                    path));
  if (!fs::is_regular_file(status)) return tl::unexpected(unwritable(path, "it is not a file"));
  if (fs::file_size(path, error) == 0) return tl::unexpected(damaged("open", path, "it is empty"));
  return {};
}

Status check_version(int64_t version, const std::string& path) {
  if (version == schema_version) return {};
  const bool newer = version > schema_version;
  return fail(ErrorCode::Database,
              fmt::format("[open] {} has schema version {}, this program {}; {}", path, version,
                          schema_version,
                          newer ? "use the newer program that wrote it"
                                : "bring it up to date with `tilewright db upgrade`"));
}

// What a writer may mend before it starts: an older schema, a journal mode that is not ours.
Status bring_up_to_date(Connection& connection, Gate& gate) {
  TW_TRY(const int64_t version, version_of(connection));
  if (version > schema_version) return check_version(version, connection.path());
  TW_TRY(const std::string mode, connection.text("PRAGMA journal_mode"));
  if (version == schema_version && mode == "delete") return {};
  TW_TRY(const Gate::Hold hold, gate.enter());
  if (mode != "delete") TW_RETURN_IF_ERROR(connection.execute("PRAGMA journal_mode=DELETE"));
  TW_TRY(const int64_t now, version_of(connection));  // another process may have been faster
  if (now == schema_version) return {};
  return migrate(connection, known_migrations(), schema_version);
}

Result<Connection> open_checked(const std::string& path, const StoreOptions& options, Gate* gate) {
  TW_RETURN_IF_ERROR(check_file(path));
  // A reader too asks for write access: it may have to roll back the journal of a killed writer.
  TW_TRY(Connection connection,
         Connection::open(
             path,
             {.create = false, .writable = true, .vfs = options.vfs, .waiting = options.waiting}));
  if (gate && connection.is_read_only()) return tl::unexpected(unwritable(path, "it is read-only"));
  if (gate) TW_RETURN_IF_ERROR(bring_up_to_date(connection, *gate));
  TW_TRY(const int64_t version, version_of(connection));
  TW_RETURN_IF_ERROR(check_version(version, path));
  TW_RETURN_IF_ERROR(check_objects(connection));
  if (!gate) TW_RETURN_IF_ERROR(connection.execute("PRAGMA query_only=ON"));
  return connection;
}

}  // namespace

Result<std::string> canonical_path(const std::string& path) {
  std::error_code error;
  fs::path canonical;
  if (!path.empty() && path.find('\0') == std::string::npos) canonical = fs::absolute(path, error);
  if (!error && !canonical.empty()) canonical = fs::weakly_canonical(canonical, error);
  if (error)
    return fail(ErrorCode::Database,
                fmt::format("[open] {} cannot be reached ({}); check the permissions of its "
                            "directories, or name another database with --db",
                            path, error.message()));
  if (canonical.empty() || !canonical.has_filename())
    return fail(ErrorCode::Database,
                fmt::format("[open] '{}' is not the path of a file; name a file with --db", path));
  return canonical.string();
}

Result<OpenedFile> open_file(const std::string& canonical, OpenMode mode,
                             const StoreOptions& options) {
  std::optional<Gate> gate;
  if (mode == OpenMode::Update) TW_RETURN_IF_ERROR(check_file(canonical));
  if (mode != OpenMode::ReadOnly) {
    TW_RETURN_IF_ERROR(prepare_directory(canonical, options));
    TW_TRY(Gate opened, Gate::open(canonical, options.waiting));
    gate.emplace(std::move(opened));
    TW_RETURN_IF_ERROR(create_if_absent(canonical, *gate, options));
  }
  TW_TRY(Connection connection, open_checked(canonical, options, gate ? &*gate : nullptr));
  return OpenedFile{std::move(connection), std::move(gate)};
}

}  // namespace tw::db
