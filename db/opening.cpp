// SPDX-License-Identifier: Apache-2.0
#include "db/opening.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "db/engine/filesystem.h"
#include "db/engine/postgres_connection.h"
#include "db/server_address.h"
#include "db/tables/schema.h"

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

void remove_unfinished(const std::string& fresh) {
  std::error_code ignored;
  fs::remove(fresh, ignored);
  fs::remove(fresh + "-journal", ignored);
}

Status create_unnamed(const std::string& fresh, const StoreOptions& options) {
  TW_TRY(const auto connection,
         SqliteConnection::open(
             fresh,
             {.create = true, .writable = true, .vfs = options.vfs, .waiting = options.waiting}));
  return create_schema(*connection);
}

// Creates a database file. The file gets its path by a rename when it is complete, so a process
// that is killed before leaves no incomplete file at this path.
Status create_file(const std::string& path, const StoreOptions& options) {
  const std::string fresh = path + ".new";
  remove_unfinished(fresh);
  if (const Status created = create_unnamed(fresh, options); !created) {
    remove_unfinished(fresh);
    return created;
  }
  std::error_code error;
  fs::rename(fresh, path, error);
  if (error) return tl::unexpected(unwritable(path, error.message()));
  sync_directory_of(path);
  return {};
}

Status create_if_absent(const std::string& path, Gate& gate, const StoreOptions& options) {
  if (fs::exists(path)) return {};
  TW_TRY(const Gate::Hold hold, gate.enter());
  if (fs::exists(path)) return {};
  const Status created = create_file(path, options);
  if (!created) gate.remove_file(hold);  // for example on a full disk: leaves no lock file behind
  return created;
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

// Prepares a file for a writer: sets the journal mode DELETE, and migrates an older schema.
Status bring_up_to_date(SqliteConnection& connection, Gate& gate) {
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

Result<std::unique_ptr<SqliteConnection>> open_checked(const std::string& path,
                                                       const StoreOptions& options, Gate* gate) {
  TW_RETURN_IF_ERROR(check_file(path));
  // A reader asks for write access too, because it may have to roll back the journal of a killed
  // writer.
  TW_TRY(std::unique_ptr<SqliteConnection> connection,
         SqliteConnection::open(path, {.create = false,
                                       .writable = true,
                                       .vfs = options.vfs,
                                       .waiting = options.waiting,
                                       .read_limit_ms = gate ? 0 : options.read_limit_ms}));
  TW_TRY(const bool is_read_only, connection->is_read_only());
  if (gate && is_read_only) return tl::unexpected(unwritable(path, "it is read-only"));
  if (gate) TW_RETURN_IF_ERROR(bring_up_to_date(*connection, *gate));
  TW_TRY(const int64_t version, version_of(*connection));
  TW_RETURN_IF_ERROR(check_version(version, path));
  TW_RETURN_IF_ERROR(check_objects(*connection));
  if (!gate) TW_RETURN_IF_ERROR(connection->execute("PRAGMA query_only=ON"));
  return connection;
}

Result<Opened> open_file(const std::string& path, OpenMode mode, const StoreOptions& options) {
  std::optional<Gate> gate;
  if (mode == OpenMode::Update) TW_RETURN_IF_ERROR(check_file(path));
  if (mode != OpenMode::ReadOnly) {
    TW_RETURN_IF_ERROR(prepare_directory(path, options));
    TW_TRY(Gate opened, Gate::open(path, options.waiting));
    gate.emplace(std::move(opened));
    TW_RETURN_IF_ERROR(create_if_absent(path, *gate, options));
  }
  TW_TRY(std::unique_ptr<SqliteConnection> connection,
         open_checked(path, options, gate ? &*gate : nullptr));
  SqliteConnection* const file = connection.get();
  return Opened{std::move(connection), std::move(gate), file};
}

// ---- a server ----

Error no_tables(const std::string& address) {
  return {ErrorCode::Database,
          fmt::format("[open] {} holds no tuning database; one was expected; `tilewright tune` "
                      "creates it, --db names another",
                      address)};
}

// Creates or migrates the tables on a server. Another process may have done this since the version
// was read. So the version is read again inside the transaction, which only one process at a time
// can hold.
Status make_or_migrate(Connection& connection) {
  TW_TRY(Transaction transaction, Transaction::begin(connection));
  TW_TRY(const std::optional<int64_t> version, connection.schema_version());
  if (!version)
    TW_RETURN_IF_ERROR(create_objects(connection));
  else if (*version < schema_version)
    TW_RETURN_IF_ERROR(apply_steps(connection, known_migrations(), schema_version));
  return transaction.commit();
}

// Creates the directory of the spool. This is done when a store is opened, because a tuner without
// a usable spool should fail at its start, not later when the server becomes unreachable.
Status prepare_spool(const std::string& directory) {
  std::error_code error;
  if (!directory.empty()) fs::create_directories(directory, error);
  if (!error) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[open] {} cannot be made ({}), where records wait while a server cannot "
                          "be reached; check its permissions, or set XDG_DATA_HOME",
                          directory, error.message()));
}

Result<Opened> open_server(const std::string& address, OpenMode mode, const StoreOptions& options) {
  if (mode != OpenMode::ReadOnly) TW_RETURN_IF_ERROR(prepare_spool(options.spool_directory));
  TW_TRY(std::unique_ptr<Connection> connection,
         PostgresConnection::open(
             address, {.writable = mode != OpenMode::ReadOnly,
                       .waiting = options.waiting,
                       .read_limit_ms = mode == OpenMode::ReadOnly ? options.read_limit_ms : 0}));
  TW_TRY(std::optional<int64_t> version, connection->schema_version());
  if (!version && mode != OpenMode::ReadWrite) return tl::unexpected(no_tables(address));
  if (mode != OpenMode::ReadOnly && version.value_or(0) < schema_version) {
    TW_RETURN_IF_ERROR(make_or_migrate(*connection));
    TW_TRY(version, connection->schema_version());
  }
  TW_RETURN_IF_ERROR(check_version(version.value_or(0), address));
  TW_TRY(const bool is_read_only, connection->is_read_only());
  if (mode != OpenMode::ReadOnly && is_read_only)
    return fail(ErrorCode::Database,
                fmt::format("[open] {} cannot be written: its role may only read, or the server is "
                            "a standby; ask for the role tilewright_recorder, or name another "
                            "database with --db",
                            address));
  return Opened{std::move(connection)};
}

}  // namespace

Result<std::string> canonical_path(const std::string& path) {
  if (is_server(path)) {
    TW_RETURN_IF_ERROR(check_address(path));
    return path;
  }
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

Result<Opened> open_canonical(const std::string& canonical, OpenMode mode,
                              const StoreOptions& options) {
  return is_server(canonical) ? open_server(canonical, mode, options)
                              : open_file(canonical, mode, options);
}

}  // namespace tw::db
