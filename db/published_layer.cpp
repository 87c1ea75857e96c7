// SPDX-License-Identifier: Apache-2.0
#include "db/published_layer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/sha256.h"
#include "db/fields.h"
#include "db/schema.h"
#include "db/store.h"

namespace tw::db {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int layer_version = 1;
constexpr size_t most_manifest_bytes = 64 << 10;
constexpr int64_t most_data_bytes = int64_t{1} << 30;
constexpr std::string_view kept_manifest = "manifest";

int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// The name of a file in the folder of the layer, and nowhere else.
bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         name.find_first_of("/\\?#%") == std::string_view::npos && is_valid_text(name);
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<LayerManifest> manifest_of(const Json& json) {
  if (json.at("layer").get<int>() != layer_version)
    return fail(ErrorCode::Invalid, "it is of another version of this program");
  LayerManifest manifest{json.at("data").get<std::string>(),
                         json.at("sha256").get<std::string>(),
                         json.at("bytes").get<int64_t>(),
                         json.at("records").get<int64_t>(),
                         json.at("created_ms").get<int64_t>(),
                         json.at("program_version").get<std::string>(),
                         json.at("devices").get<std::vector<std::string>>(),
                         json.at("public_key").get<std::string>(),
                         json.at("signature").get<std::string>()};
  const bool is_plausible = is_file_name(manifest.data) && is_sha256(manifest.sha256) &&
                            manifest.bytes >= 0 && manifest.bytes <= most_data_bytes;
  if (!is_plausible) return fail(ErrorCode::Invalid, "it names no file that a layer may have");
  return manifest;
}

// ---- files of a copy ----

/// A file that goes with its scope unless it is renamed.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)) {}
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    std::error_code ignored;
    for (const char* suffix : {"", ".lock", "-journal", ".new", ".new-journal"})
      fs::remove(path_ + suffix, ignored);
  }
  const std::string& path() const { return path_; }

  Status move_to(const std::string& name) const {
    std::error_code error;
    fs::rename(path_, name, error);
    if (!error) return {};
    return fail(ErrorCode::Environment,
                fmt::format("{} cannot be written ({})", name, error.message()));
  }

 private:
  std::string path_;
};

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

/// Files of this process alone.
std::string temporary_in(const std::string& folder, std::string_view what) {
  return fmt::format("{}/{}.{}.{}", folder, what, getpid(), unix_ms());
}

/// Databases of other schemas have other names: a newer program makes its own.
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

/// Fetches the records into a file, of which the manifest says how long it is.
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

Status make_database(const std::string& lines, const std::string& path, const Waiting& waiting) {
  TW_TRY(Store store, Store::open(path, OpenMode::ReadWrite, {.waiting = waiting}));
  TW_RETURN_IF_ERROR(store.import_jsonl(lines));
  return {};
}

/// The databases of layers before this one.
void remove_others(const std::string& folder, const std::string& kept) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string path = entry.path();
    if (path.ends_with(".db") && path != kept) fs::remove(path, ignored);
    if (path.ends_with(".db.lock")) fs::remove(path, ignored);
  }
}

Status refresh(const std::string& folder, const LayerSource& source, const Waiting& waiting) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return fail(ErrorCode::Environment,
                fmt::format("{} cannot be made ({})", folder, error.message()));
  TW_TRY(const std::string text, fetched_text(source));
  TW_TRY(const LayerManifest manifest, parse_manifest(text, source.public_key));
  const std::optional<LayerManifest> kept = kept_manifest_in(folder, source.public_key);
  if (kept && manifest.created_ms < kept->created_ms)
    return fail(ErrorCode::Invalid, "it is older than the copy");
  const std::string database = database_of(folder, manifest);
  if (!fs::exists(database, error)) {
    const NewFile lines(temporary_in(folder, "lines")), fresh(temporary_in(folder, "database"));
    TW_RETURN_IF_ERROR(fetch_data(source, manifest, lines.path()));
    TW_RETURN_IF_ERROR(make_database(lines.path(), fresh.path(), waiting));
    TW_RETURN_IF_ERROR(fresh.move_to(database));
  }
  const NewFile accepted(temporary_in(folder, kept_manifest));
  TW_RETURN_IF_ERROR(write_file(accepted.path(), text));
  TW_RETURN_IF_ERROR(accepted.move_to(fmt::format("{}/{}", folder, kept_manifest)));
  remove_others(folder, database);
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
  Result<LayerManifest> manifest = fail(ErrorCode::Invalid, "its manifest cannot be read");
  try {
    // A manifest that nests deeper than a list of names was not written by this program.
    manifest = manifest_of(
        Json::parse(text, [](int depth, Json::parse_event_t, Json&) { return depth <= 2; }));
  } catch (const std::exception&) {
    return manifest;
  }
  if (!manifest) return manifest;
  if (manifest->public_key != public_key)
    return fail(ErrorCode::Invalid,
                fmt::format("it is signed by another key, {:.44}", manifest->public_key));
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
