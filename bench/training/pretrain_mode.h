// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trains the pretrained model that comes with the program. Also reports how well models of this
// kind choose schedules from recordings on which they were not trained.

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

/// Runs the mode --pretrain and returns the exit code. Judges models on the recordings of FILES,
/// then trains a model on all of these recordings. If --pretrained is given, writes this model to
/// that file.
Result<int> run_pretrain(const Call& call);

}  // namespace tw::bench
