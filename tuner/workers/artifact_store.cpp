// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/artifact_store.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/hash.h"
#include "base/text.h"
#include "runtime/private_file.h"

namespace tw::tuner {
namespace {

constexpr size_t digits_of_a_name = 64;

/// True if the text has the form of a name. A name may come from a worker, and becomes a part of a
/// path, so it may contain nothing else.
bool is_name(std::string_view text) { return text.size() == digits_of_a_name && is_hex(text); }

}  // namespace

std::string ArtifactStore::path_of(const std::string& name) const {
  return directory_ + "/" + name + ".twart";
}

Result<std::string> ArtifactStore::put(std::string_view bytes) const {
  const std::string name = sha256_hex(bytes);
  std::error_code ignored;
  if (!std::filesystem::exists(path_of(name), ignored))
    TW_RETURN_IF_ERROR(runtime::replace_scratch_file(path_of(name), bytes));
  return name;
}

Result<std::string> ArtifactStore::put(const runtime::Artifact& artifact) const {
  TW_TRY(const std::string bytes, runtime::artifact_bytes(artifact));
  return put(bytes);
}

Result<std::string> ArtifactStore::get(const std::string& name) const {
  if (!is_name(name))
    return fail(ErrorCode::Invalid,
                fmt::format("[artifact] '{}' names no kernel: expected a SHA-256", name));
  TW_TRY(std::string bytes,
         runtime::read_private_file(path_of(name), false, runtime::most_artifact_bytes));
  if (sha256_hex(bytes) != name)
    return fail(ErrorCode::Invalid,
                fmt::format("[artifact] the bytes of kernel {} do not match its name", name));
  return bytes;
}

Result<runtime::Artifact> ArtifactStore::load(const std::string& name,
                                              const Target& machine) const {
  TW_TRY(const std::string bytes, get(name));
  TW_TRY(runtime::Artifact artifact, runtime::parse_artifact(bytes));
  TW_RETURN_IF_ERROR(runtime::check_target(artifact.info.target, machine));
  return artifact;
}

}  // namespace tw::tuner
