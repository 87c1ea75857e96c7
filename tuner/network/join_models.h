// SPDX-License-Identifier: Apache-2.0
#pragma once
// One model from several that are the same network for inputs of other shapes, such as batches of 1
// and of 8. Pure; thread-safe.

#include <span>

#include "runtime/model_file.h"

namespace tw::tuner {

/// A model with the variants of all of these, in their order. Equal kernels are kept once, and so
/// are constants that are equal byte for byte as they are packed. Requires: at least one model; all
/// have the same name, target, ABI and number of threads, and pass check_model().
runtime::ModelFile join_models(std::span<const runtime::ModelFile* const> models);

}  // namespace tw::tuner
