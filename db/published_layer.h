// SPDX-License-Identifier: Apache-2.0
#pragma once
// A published layer: records in a file that others fetch, and beside it a manifest that says what
// is in the file, by its SHA-256, and is signed by a key of the team. Who fetches it keeps a copy
// as a database, which is brought up to date when the manifest has changed. A copy answers as it is
// while the layer cannot be fetched, or is not what the team signed. docs/layers.md describes the
// files. Thread-safe; several processes may share a folder of copies.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/signature.h"
#include "db/engine/waiting.h"

namespace tw::db {

/// The end of the name of a manifest.
inline constexpr std::string_view manifest_ending = ".layer.json";

/// True if this names a published layer: a path or an address that ends as a manifest does.
bool is_published_layer(std::string_view text);

struct LayerManifest {
  std::string data = {};    ///< name of the file with the records, in the folder of the manifest
  std::string sha256 = {};  ///< of that file, 64 hex digits
  int64_t bytes = 0;        ///< of that file
  int64_t records = 0;      ///< for people: what is imported are the lines
  int64_t created_ms = 0;   ///< a copy is never replaced by an older layer
  std::string program_version = {};
  std::vector<std::string> devices = {};  ///< models of devices that measured the records, sorted
  std::string public_key = {};
  std::string signature = {};  ///< of canonical_text()
};

/// The text that is signed: all members but the signature.
std::string canonical_text(const LayerManifest& manifest);
LayerManifest signed_by(const SigningKey& key, LayerManifest manifest);
std::string to_json(const LayerManifest& manifest);
/// The manifest of a file. Invalid, with a reason that names no file, where it is malformed or not
/// signed by the owner of `public_key`.
Result<LayerManifest> parse_manifest(std::string_view text, std::string_view public_key);

/// Gets the file of that name in the folder of the layer, and gives its bytes to `take`, piece by
/// piece, until that says false. It fails where the file cannot be had whole.
using FetchFile = std::function<Status(const std::string& name,
                                       const std::function<bool(std::string_view piece)>& take)>;

struct LayerSource {
  std::string manifest;    ///< name of its file
  std::string public_key;  ///< of the team
  FetchFile fetch;
};

struct LayerCopy {
  std::string database;          ///< the file of the copy; empty where there is none
  std::optional<Error> problem;  ///< why it was not brought up to date
};

/// Brings the copy in `folder`, which belongs to this layer alone and is made where it is absent,
/// up to date. A copy that cannot be read is made anew. `waiting` is for its database.
LayerCopy refreshed_copy(const std::string& folder, const LayerSource& source,
                         const Waiting& waiting);

/// The file of the copy as the last refreshed_copy() left it; empty where there is none.
std::string kept_copy(const std::string& folder, std::string_view public_key);

}  // namespace tw::db
