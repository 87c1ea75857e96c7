// SPDX-License-Identifier: Apache-2.0
#pragma once
// A published layer is a file of a team's records that others fetch, with a manifest beside it. The
// manifest states the SHA-256 of the file and is signed with the private key of the team. A user
// keeps a copy of the layer as a database, which is updated when the manifest has changed. If the
// layer cannot be fetched, or does not match the signature, the existing copy is used.
// docs/layers.md describes the files. Thread-safe; several processes may share a folder of copies.

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

/// The ending of the file name of a manifest.
inline constexpr std::string_view manifest_ending = ".layer.json";

/// True if the text is a path or an address of a published layer: it ends with manifest_ending.
bool is_published_layer(std::string_view text);

struct LayerManifest {
  std::string data = {};    ///< name of the file with the records, in the folder of the manifest
  std::string sha256 = {};  ///< SHA-256 of the data file, 64 hex digits
  int64_t bytes = 0;        ///< size of the data file
  int64_t records = 0;      ///< informative only: every line of the file is imported
  int64_t created_ms = 0;   ///< time of publishing; an older layer never replaces a newer copy
  std::string program_version = {};
  std::vector<std::string> devices = {};  ///< models of devices that measured the records, sorted
  std::string public_key = {};
  std::string signature = {};  ///< signature of canonical_text()
};

/// Returns the text that is signed, which has all members except the signature.
std::string canonical_text(const LayerManifest& manifest);
LayerManifest signed_by(const SigningKey& key, LayerManifest manifest);
std::string to_json(const LayerManifest& manifest);
/// Parses the text of a manifest. Fails with Invalid if the text is malformed, or if its signature
/// was not made with the private key that belongs to `public_key`. The message does not name a
/// file.
Result<LayerManifest> parse_manifest(std::string_view text, std::string_view public_key);

/// A function that fetches the file `name` from the folder of the layer and passes its bytes to
/// `take`, piece by piece, until `take` returns false. Fails if the file cannot be fetched
/// completely.
using FetchFile = std::function<Status(const std::string& name,
                                       const std::function<bool(std::string_view piece)>& take)>;

struct LayerSource {
  std::string manifest;    ///< file name of the manifest
  std::string public_key;  ///< public key of the team
  FetchFile fetch;
};

struct LayerCopy {
  std::string database;          ///< the file of the copy; empty if there is none
  std::optional<Error> problem;  ///< why the copy was not updated; nullopt if it is up to date
};

/// Updates the copy of a layer in `folder`. Returns the path of the copy, and an error if it could
/// not be updated. The folder is created if it is absent, and must contain nothing but this layer.
/// A copy that cannot be read is replaced by a new one. `waiting` has the options of waits for
/// locks of the copy's database.
LayerCopy refreshed_copy(const std::string& folder, const LayerSource& source,
                         const Waiting& waiting);

/// Returns the path of the copy that the last call of refreshed_copy() left in `folder`. Empty if
/// there is no copy, or if the manifest of the copy is not signed with the private key that belongs
/// to `public_key`. Fetches nothing.
std::string kept_copy(const std::string& folder, std::string_view public_key);

}  // namespace tw::db
