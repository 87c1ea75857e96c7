// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes of the processor's data caches, as Linux reports them. Thread-safe.

#include <array>
#include <cstdint>
#include <string>

namespace tw {

/// Returns the sizes in bytes of the L1 data cache, L2 and L3 that core 0 uses. The size of a
/// shared cache is that of one instance. The size of a level that the system does not report is 0.
/// `folder` is the folder in sysfs that describes the caches of a core. If sysfs reports no size at
/// all, sysconf() is asked. It comes second because on some virtual machines it counts the L3 of
/// all sockets.
std::array<int64_t, 3> cache_sizes(
    const std::string& folder = "/sys/devices/system/cpu/cpu0/cache");

}  // namespace tw
