// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes of the processor's data caches, as Linux reports them. Thread-safe.

#include <array>
#include <cstdint>
#include <string>

namespace tw {

/// Bytes of one instance of L1, L2 and L3, as a core sees them; 0 where the system does not tell.
/// From sysfs, where each core has a folder of caches: sysconf() counts the L3 of all sockets on
/// some virtual machines, and is asked only where there is no sysfs.
std::array<int64_t, 3> cache_sizes(
    const std::string& folder = "/sys/devices/system/cpu/cpu0/cache");

}  // namespace tw
