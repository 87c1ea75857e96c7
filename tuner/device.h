// SPDX-License-Identifier: Apache-2.0
#pragma once
// The device of a record as text: what two machines must share for their records to be the same
// fact.

#include <string>

#include "base/target.h"

namespace tw::tuner {

/// "AMD EPYC; 2 cores; L1 32 KiB; L2 1024 KiB; L3 32 MiB"
std::string device_text(const Target& target);

}  // namespace tw::tuner
