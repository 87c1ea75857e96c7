// SPDX-License-Identifier: Apache-2.0
#pragma once
// The private directory of a run, for artifacts and for files of compilers. The directory is
// removed when the value is destroyed. A directory that a killed run left behind is removed when
// the next run makes its own directory.
//
// A run holds a lock on its directory. The system releases the lock in whatever way the process
// ends. So a directory without a lock has no living owner, even if the owner ran in another
// container. Not thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw::tuner {

/// Prefix of the names of private directories of runs.
inline constexpr std::string_view scratch_prefix = "tilewright-run-";

struct ScratchOptions {
  std::vector<std::string> parents;             ///< the first suitable one is used
  int64_t least_free_bytes = int64_t{4} << 20;  ///< a parent with less free space is unsuitable
};

class Scratch {
 public:
  /// Makes a directory in the first suitable parent, and removes the directories that killed runs
  /// of this user left there. Fails with Environment if no parent is suitable; the message says for
  /// each parent why not.
  static Result<Scratch> make(const ScratchOptions& options);

  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&& other) noexcept;
  ~Scratch();

  const std::string& path() const { return path_; }

 private:
  Scratch(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  static Result<Scratch> make_in(const std::string& parent);
  void remove();

  std::string path_;
  int lock_ = -1;
};

/// Returns the directories for temporary files, in order of preference: $TMPDIR, or /tmp if it is
/// not set; then /var/tmp. If $TMPDIR is set and is no directory, returns only the text "$TMPDIR",
/// so that make() fails and names the cause.
ScratchOptions temporary_places();

/// Removes the directories of killed runs in `parent` that belong to this user and are no links.
/// Returns the number of removed directories.
int remove_abandoned(const std::string& parent);

}  // namespace tw::tuner
