// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/target.h"

namespace tw::tuner {

/// Number of candidates in one round of a search on a processor.
inline constexpr int usual_batch_size = 8;

/// Returns the number of candidates in one round of a search, unless the caller asks for another
/// number. Up to twelve builders compile candidates for CUDA, so a round for CUDA has two for each
/// builder. The first points of a run depend on this number, and must be the same on every machine.
/// So it depends on the target, and not on the number of cores.
inline int batch_size_for(const Target& target) {
  return target.architecture == Architecture::Cuda ? 24 : usual_batch_size;
}

}  // namespace tw::tuner
