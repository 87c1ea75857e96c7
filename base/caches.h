// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes of the processor's data caches, as Linux reports them. Thread-safe.

#include <array>
#include <cstdint>
#include <string>

namespace tw {

/// Returns the bytes of one instance of the L1 data cache, L2 and L3 that core 0 uses; the size of
/// a level that the system does not report is 0. The sizes come from sysfs, in which each core has
/// a folder of caches. sysconf() is asked only if there is no sysfs, because on some virtual
/// machines sysconf() counts the L3 of all sockets.
std::array<int64_t, 3> cache_sizes(
    const std::string& folder = "/sys/devices/system/cpu/cpu0/cache");

}  // namespace tw
