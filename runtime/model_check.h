// SPDX-License-Identifier: Apache-2.0
#pragma once
// The checks of check_model() (runtime/model_file.h), for models whose constants are not in
// ModelFile::constants, such as mapped ones. Pure; thread-safe.

#include <cstdint>

#include "base/result.h"
#include "runtime/model_file.h"

namespace tw::runtime {

/// Checks that the model is safe to run, if its constants have `constant_bytes` bytes. Fails with
/// Invalid otherwise; the message names the step or tensor. Takes time nearly linear in the number
/// of arguments of all runs of steps.
Status find_defect(const ModelFile& model, int64_t constant_bytes);

}  // namespace tw::runtime
