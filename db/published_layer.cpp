// SPDX-License-Identifier: Apache-2.0
#include "db/published_layer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"
#include "db/exchange/json_fields.h"
#include "db/fields.h"
#include "db/store.h"
#include "db/tables/schema.h"
#include "db/transfer.h"

namespace tw::db {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int layer_version = 1;
// Depth of nesting of a manifest, which is an object that holds a list of names.
constexpr int depth_of_manifest = 2;
constexpr size_t most_manifest_bytes = 64 << 10;
constexpr int64_t most_data_bytes = int64_t{1} << 30;
constexpr std::string_view kept_manifest = "manifest";

/// True if the name can only be that of a visible file directly in a folder, not a path or URL that
/// leads elsewhere.
bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         name.find_first_of("/\\?#%") == std::string_view::npos && is_valid_text(name);
}

bool is_sha256(std::string_view text) { return text.size() == 64 && is_hex(text); }

Result<LayerManifest> manifest_of(const Json& json) {
  if (integer_field(json, "layer") != layer_version)
    return fail(ErrorCode::Invalid, "it is of another version of this program");
  LayerManifest manifest{text_field(json, "data"),
                         text_field(json, "sha256"),
                         integer_field(json, "bytes"),
                         integer_field(json, "records"),
                         integer_field(json, "created_ms"),
                         text_field(json, "program_version"),
                         json.at("devices").get<std::vector<std::string>>(),
                         text_field(json, "public_key"),
                         text_field(json, "signature")};
  const bool is_plausible = is_file_name(manifest.data) && is_sha256(manifest.sha256) &&
                            manifest.bytes >= 0 && manifest.bytes <= most_data_bytes;
  if (!is_plausible) return fail(ErrorCode::Invalid, "it names no file that a layer may have");
  return manifest;
}

// ---- files of a copy ----

/// A lock that is held while a copy is updated, so that only one process or thread at a time
/// changes the copy. The system frees the lock if its holder dies.
class CopyLock {
 public:
  static Result<CopyLock> take(const std::string& folder) {
    const std::string path = folder + "/lock";
    CopyLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (lock.file_ >= 0 && ::flock(lock.file_, LOCK_EX) == 0) return lock;
    return fail(ErrorCode::Environment,
                fmt::format("{} cannot be locked ({})", path, std::strerror(errno)));
  }
  CopyLock(CopyLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  CopyLock& operator=(CopyLock&&) = delete;
  ~CopyLock() {
    if (file_ >= 0) ::close(file_);
  }

 private:
  explicit CopyLock(int file) : file_(file) {}
  int file_;
};

/// A folder for files that are not complete yet. Making the object also removes files that killed
/// processes left in the folder. Requires: the CopyLock is held.
class Unfinished {
 public:
  explicit Unfinished(const std::string& folder) : path_(folder + "/unfinished") {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    fs::create_directory(path_, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

 private:
  std::string path_;
};

Status move_file(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return {};
  return fail(ErrorCode::Environment,
              fmt::format("{} cannot be written ({})", to, error.message()));
}

std::optional<std::string> file_text(const std::string& path, size_t most_bytes) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::string text(most_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return text.size() <= most_bytes ? std::optional(std::move(text)) : std::nullopt;
}

Status write_file(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (out) return {};
  return fail(ErrorCode::Environment, fmt::format("{} cannot be written: check the disk", path));
}

/// Returns the path of the copy. It depends on the schema version, so a program with a newer schema
/// makes a copy of its own.
std::string database_of(const std::string& folder, const LayerManifest& manifest) {
  return fmt::format("{}/{}.v{}.db", folder, manifest.sha256, schema_version);
}

std::optional<LayerManifest> kept_manifest_in(const std::string& folder,
                                              std::string_view public_key) {
  const auto text = file_text(fmt::format("{}/{}", folder, kept_manifest), most_manifest_bytes);
  if (!text) return std::nullopt;
  Result<LayerManifest> manifest = parse_manifest(*text, public_key);
  return manifest ? std::optional(std::move(*manifest)) : std::nullopt;
}

// ---- fetching ----

Result<std::string> fetched_text(const LayerSource& source) {
  std::string text;
  bool is_too_long = false;
  const Status fetched = source.fetch(source.manifest, [&](std::string_view piece) {
    is_too_long = text.size() + piece.size() > most_manifest_bytes;
    if (!is_too_long) text += piece;
    return !is_too_long;
  });
  if (is_too_long) return fail(ErrorCode::Invalid, "its manifest is longer than 64 KiB");
  if (!fetched) return tl::unexpected(fetched.error());
  return text;
}

/// Fetches the data file of a layer and writes it to `path`. Fails if its length or hash is not the
/// one in the manifest.
Status fetch_data(const LayerSource& source, const LayerManifest& manifest,
                  const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  int64_t bytes = 0;
  Sha256 hash;
  const Status fetched = source.fetch(manifest.data, [&](std::string_view piece) {
    bytes += std::ssize(piece);
    if (bytes > manifest.bytes) return false;
    hash.add(piece);
    out << piece;
    return out.good();
  });
  out.close();
  if (bytes > manifest.bytes)
    return fail(ErrorCode::Invalid,
                fmt::format("{} is longer than its manifest says", manifest.data));
  if (!out) return fail(ErrorCode::Environment, fmt::format("{} cannot be written", path));
  TW_RETURN_IF_ERROR(fetched);
  if (bytes < manifest.bytes)
    return fail(ErrorCode::Invalid,
                fmt::format("{} ends after {} bytes of {}", manifest.data, bytes, manifest.bytes));
  if (hash.hex() != manifest.sha256)
    return fail(ErrorCode::Invalid,
                fmt::format("{} is not the file that was signed", manifest.data));
  return {};
}

/// Makes a database at `path` from the file `lines`, in the form of export_jsonl(). Only records
/// and calibrations that agree with their hashes are stored.
Status make_database(const std::string& lines, const std::string& path, const Waiting& waiting) {
  TW_TRY(Store store, Store::open(path, OpenMode::ReadWrite, {.waiting = waiting}));
  TW_RETURN_IF_ERROR(import_jsonl(store, lines));
  return {};
}

/// Removes the databases of earlier versions of the layer. The database of the previous version
/// stays, because a process may be about to open it.
void remove_earlier(const std::string& folder, const std::string& present,
                    const std::string& before) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string path = entry.path();
    const bool is_database = path.ends_with(".db") && path != present && path != before;
    if (is_database || path.ends_with(".db.lock")) fs::remove(path, ignored);
  }
}

bool can_be_read(const std::string& database, const Waiting& waiting) {
  return Store::open(database, OpenMode::ReadOnly, {.waiting = waiting}).has_value();
}

Status refresh(const std::string& folder, const LayerSource& source, const Waiting& waiting) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return fail(ErrorCode::Environment,
                fmt::format("{} cannot be made ({})", folder, error.message()));
  TW_TRY(const CopyLock lock, CopyLock::take(folder));
  TW_TRY(const std::string text, fetched_text(source));
  TW_TRY(const LayerManifest manifest, parse_manifest(text, source.public_key));
  const std::optional<LayerManifest> kept = kept_manifest_in(folder, source.public_key);
  if (kept && manifest.created_ms < kept->created_ms)
    return fail(ErrorCode::Invalid, "it is older than the copy");
  const std::string database = database_of(folder, manifest);
  const Unfinished unfinished(folder);
  if (!can_be_read(database, waiting)) {
    TW_RETURN_IF_ERROR(fetch_data(source, manifest, unfinished / "lines"));
    TW_RETURN_IF_ERROR(make_database(unfinished / "lines", unfinished / "layer.db", waiting));
    TW_RETURN_IF_ERROR(move_file(unfinished / "layer.db", database));
  }
  TW_RETURN_IF_ERROR(write_file(unfinished / "manifest", text));
  TW_RETURN_IF_ERROR(
      move_file(unfinished / "manifest", fmt::format("{}/{}", folder, kept_manifest)));
  remove_earlier(folder, database, kept ? database_of(folder, *kept) : database);
  return {};
}

}  // namespace

bool is_published_layer(std::string_view text) { return text.ends_with(manifest_ending); }

std::string canonical_text(const LayerManifest& manifest) {
  std::string text = fmt::format("tilewright-layer {}\n", layer_version);
  append_field(text, "data", manifest.data);
  append_field(text, "sha256", manifest.sha256);
  append_field(text, "bytes", std::to_string(manifest.bytes));
  append_field(text, "records", std::to_string(manifest.records));
  append_field(text, "created_ms", std::to_string(manifest.created_ms));
  append_field(text, "program_version", manifest.program_version);
  append_field(text, "devices", fmt::format("{}", fmt::join(manifest.devices, "\n")));
  append_field(text, "public_key", manifest.public_key);
  return text;
}

LayerManifest signed_by(const SigningKey& key, LayerManifest manifest) {
  manifest.public_key = key.public_key;
  manifest.signature = sign(key, canonical_text(manifest));
  return manifest;
}

std::string to_json(const LayerManifest& m) {
  const Json json = {{"layer", layer_version},
                     {"data", m.data},
                     {"sha256", m.sha256},
                     {"bytes", m.bytes},
                     {"records", m.records},
                     {"created_ms", m.created_ms},
                     {"program_version", m.program_version},
                     {"devices", m.devices},
                     {"public_key", m.public_key},
                     {"signature", m.signature}};
  return json.dump(2) + '\n';
}

Result<LayerManifest> parse_manifest(std::string_view text, std::string_view public_key) {
  if (text.size() > most_manifest_bytes)
    return fail(ErrorCode::Invalid, "its manifest is longer than 64 KiB");
  Result<LayerManifest> manifest = fail(ErrorCode::Invalid, "its manifest cannot be read");
  try {
    manifest = manifest_of(parse_object(text, depth_of_manifest));
  } catch (const std::exception&) {
    return manifest;
  }
  if (!manifest) return manifest;
  if (manifest->public_key != public_key)
    return fail(ErrorCode::Invalid,
                is_public_key(manifest->public_key)
                    ? fmt::format("it is signed by another key, {}", manifest->public_key)
                    : "it names no key that could have signed it");
  if (!is_signed(canonical_text(*manifest), manifest->signature, public_key))
    return fail(ErrorCode::Invalid, "its signature is not that of its manifest");
  return manifest;
}

LayerCopy refreshed_copy(const std::string& folder, const LayerSource& source,
                         const Waiting& waiting) {
  LayerCopy copy;
  if (const Status status = refresh(folder, source, waiting); !status)
    copy.problem = status.error();
  copy.database = kept_copy(folder, source.public_key);
  if (copy.database.empty() && !copy.problem)
    copy.problem = Error{ErrorCode::Environment, "its copy went away; try again"};
  return copy;
}

std::string kept_copy(const std::string& folder, std::string_view public_key) {
  const std::optional<LayerManifest> manifest = kept_manifest_in(folder, public_key);
  if (!manifest) return {};
  std::error_code error;
  std::string database = database_of(folder, *manifest);
  return fs::exists(database, error) ? database : std::string();
}

}  // namespace tw::db
