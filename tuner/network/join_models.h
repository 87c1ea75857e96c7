// SPDX-License-Identifier: Apache-2.0
#pragma once
// Joins several models into one. The models are the same network for inputs of different shapes,
// such as batches of 1 and of 8. Pure; thread-safe.

#include <span>

#include "runtime/model_file.h"

namespace tw::tuner {

/// Returns a model that has the variants of all given models, in their order. Equal kernels are
/// stored once, and so are packed constants that are equal byte for byte. Requires: at least one
/// model; all models have the same name, target, ABI and number of threads, and pass
/// runtime::check_model().
runtime::ModelFile join_models(std::span<const runtime::ModelFile* const> models);

}  // namespace tw::tuner
