// SPDX-License-Identifier: Apache-2.0
#pragma once
// The checks of check_model() (runtime/model_file.h), for models whose constants are not in
// ModelFile::constants, such as mapped ones. Pure; thread-safe.

#include <cstdint>

#include "base/result.h"
#include "runtime/model_file.h"

namespace tw::runtime {

/// Checks that the model is safe to run, if its constants have `constant_bytes` bytes. Invalid,
/// naming the step or tensor, if the model is not safe. Takes time nearly linear in the number of
/// arguments of all steps.
Status find_defect(const ModelFile& model, int64_t constant_bytes);

}  // namespace tw::runtime
