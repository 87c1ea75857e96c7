// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trains the pretrained model that comes with the program, and reports how well models of this kind
// pick schedules of recordings on which they were not trained.

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

/// Runs the mode --pretrain: judges the model on the recordings of FILES, then trains it on all of
/// them. If --pretrained is given, writes the model to that file.
Result<int> run_pretrain(const Call& call);

}  // namespace tw::bench
