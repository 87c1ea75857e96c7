// SPDX-License-Identifier: Apache-2.0
#pragma once
// The checks of check_model() (runtime/model_file.h), for models whose constants lie elsewhere.
// Pure; thread-safe.

#include <cstdint>

#include "base/result.h"
#include "runtime/model_file.h"

namespace tw::runtime {

/// Invalid, naming step or tensor, unless a model with constants of this size is safe to run.
/// Takes time nearly linear in the number of arguments of all steps.
Status find_defect(const ModelFile& model, int64_t constant_bytes);

}  // namespace tw::runtime
