// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many processors this process may use. std::thread::hardware_concurrency() does not know: it
// ignores the quotas of control groups, and with some C libraries the affinity mask.
// Stateless and thread-safe.

#include <string>
#include <vector>

namespace tw {

/// Where Linux tells; tests name their own files.
struct CoreSources {
  std::string membership = "/proc/self/cgroup";  ///< the control groups that the process is in
  std::string groups = "/sys/fs/cgroup";         ///< where their files are
};

/// Those that the calling thread may run on by its affinity mask, in order; none where the system
/// does not tell.
std::vector<int> allowed_cores();

/// What the affinity mask (and so cpusets and processors that are offline) and the processor quotas
/// of the control group and of all groups above it allow; part of a processor counts as one. At
/// least 1.
int usable_cores(const CoreSources& sources = {});

}  // namespace tw
