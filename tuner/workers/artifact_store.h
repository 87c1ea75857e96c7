// SPDX-License-Identifier: Apache-2.0
#pragma once
// The compiled kernels of a run as bytes, each under the SHA-256 of its bytes. Builders put kernels
// there, jobs name them, and runners get them by name, so that neither needs to know where the
// other works: whoever moves bytes to another machine can check them by their name.
//
//   TW_TRY(const std::string name, artifacts.put(bytes));
//   TW_TRY(const runtime::Artifact artifact, artifacts.load(name, host_target()));
//
// This one keeps files in a directory that the processes of a machine share. A value; thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/target.h"
#include "runtime/artifact.h"

namespace tw::tuner {

class ArtifactStore {
 public:
  /// The directory must be private to the user (runtime/private_file.h).
  explicit ArtifactStore(std::string directory) : directory_(std::move(directory)) {}

  const std::string& directory() const { return directory_; }

  /// Keeps the bytes and returns their name. Equal bytes are stored once.
  Result<std::string> put(std::string_view bytes) const;
  Result<std::string> put(const runtime::Artifact& artifact) const;
  /// Invalid for a name that is no hash, and for bytes that do not match it; NotCompiled where
  /// there are none of that name.
  Result<std::string> get(const std::string& name) const;
  /// The kernel of that name, if it is one that `machine` can run.
  Result<runtime::Artifact> load(const std::string& name, const Target& machine) const;

 private:
  std::string path_of(const std::string& name) const;

  std::string directory_;
};

}  // namespace tw::tuner
