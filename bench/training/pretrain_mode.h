// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trains the pretrained model that comes with the program, and reports how well such a model picks
// schedules of recordings that it was not trained on.

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

/// Judges and trains the model on the recordings of FILES. Writes the model to the file of
/// --pretrained, if that is given.
Result<int> run_pretrain(const Call& call);

}  // namespace tw::bench
