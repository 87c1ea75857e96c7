// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trains the model that comes with the program, and says how well it does on what it has not seen.

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

/// Trains on the recordings of FILES. Writes the model to --pretrained, if that is given.
Result<int> run_pretrain(const Call& call);

}  // namespace tw::bench
