// SPDX-License-Identifier: Apache-2.0
#pragma once
// The private directory of one run, for artifacts and what compilers write. It goes with the value;
// what a killed run left behind goes when the next one makes its own.
//
// A run holds a lock on its directory. The system drops the lock when the process ends, however it
// ends: an unlocked directory has no owner, in whatever container that owner ran.
// Not thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw::tuner {

/// Names of such directories begin with it.
inline constexpr std::string_view scratch_prefix = "tilewright-run-";

struct ScratchOptions {
  std::vector<std::string> parents;             ///< the first that serves is used
  int64_t least_free_bytes = int64_t{4} << 20;  ///< a parent with less does not serve
};

class Scratch {
 public:
  /// Removes what killed runs of this user left in that parent, too. Environment when none of the
  /// parents serves, with what is wrong with each.
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

/// The system's directory for temporary files ($TMPDIR, else /tmp), then /var/tmp.
ScratchOptions temporary_places();

/// Directories of runs in `parent` that belong to this user, are no links and have no owner any
/// more are removed. Returns how many.
int remove_abandoned(const std::string& parent);

}  // namespace tw::tuner
