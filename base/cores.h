// SPDX-License-Identifier: Apache-2.0
#pragma once
// The number of processors that this process may use. std::thread::hardware_concurrency() cannot be
// used: it ignores the quotas of control groups, and with some C libraries the affinity mask.
// Stateless and thread-safe.

#include <string>
#include <vector>

namespace tw {

/// The files in which Linux describes control groups; tests name their own files.
struct CoreSources {
  std::string membership = "/proc/self/cgroup";  ///< lists the control groups of the process
  std::string groups = "/sys/fs/cgroup";         ///< root of the control group file system
};

/// Returns the processors in the affinity mask of the calling thread, in ascending order. The
/// result is empty if the system does not report the mask.
std::vector<int> allowed_cores();

/// Returns the number of processors that this process may use at the same time, at least 1. Two
/// limits apply: the affinity mask (which cpusets and offline processors shrink), and the processor
/// quotas of the control group and of all groups above it. A quota such as 2.5 processors is
/// rounded up to 3.
int usable_cores(const CoreSources& sources = {});

}  // namespace tw
