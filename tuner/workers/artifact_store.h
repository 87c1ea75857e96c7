// SPDX-License-Identifier: Apache-2.0
#pragma once
// The compiled kernels of a run as bytes, each named by the SHA-256 of its bytes. Builders store
// kernels, jobs name them, and runners load them by name. So a builder and a runner need not know
// on which machine the other works. A process that moves kernels to another machine can check the
// bytes against the name.
//
//   TW_TRY(const std::string name, artifacts.put(bytes));
//   TW_TRY(const runtime::Artifact artifact, artifacts.load(name, host_target()));
//
// The store keeps files in a directory that the processes of one machine share. The files are not
// synced to the disk, because the directory does not outlive the run. A value; thread-safe.

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

  /// Stores the bytes and returns their name, the SHA-256. Equal bytes are stored once.
  Result<std::string> put(std::string_view bytes) const;
  Result<std::string> put(const runtime::Artifact& artifact) const;
  /// Returns the bytes that are stored under `name`. Fails with Invalid if the name is no hash or
  /// the stored bytes do not match it, and with NotCompiled if no kernel has that name.
  Result<std::string> get(const std::string& name) const;
  /// Returns the kernel that is stored under `name`. It must be for a target that `machine` can
  /// run. Fails with the errors of get(), runtime::parse_artifact() and runtime::check_target().
  Result<runtime::Artifact> load(const std::string& name, const Target& machine) const;

 private:
  std::string path_of(const std::string& name) const;

  std::string directory_;
};

}  // namespace tw::tuner
