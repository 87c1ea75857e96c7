// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prepared stages (the step prepare) read only constants, so they are computed once, when constants
// are loaded. lower() makes a separate program of these stages, Program::preparation. Its results
// are arguments of the kernel.

#include <string>

#include "base/result.h"
#include "schedules/nest.h"

namespace tw::schedules {

/// Checks every prepared stage. Such a stage must not be an output or be computed inside of another
/// stage. It may read only constant inputs, other prepared stages, and stages that are computed
/// inside of it. If a stage breaks a rule, the result is Invalid, and the message names the stage
/// and the reason. lower() calls this function again, because steps after `prepare` may change the
/// stage.
Status check_prepared(const Nest& nest);

/// True if check_prepared() would accept the stage after the step `prepare`.
bool can_be_prepared(const Nest& nest, const StageNest& stage);

/// True if the tensor is an argument of the kernel: an input, or the result of a prepared stage.
bool is_kernel_argument(const Nest& nest, const std::string& tensor);

}  // namespace tw::schedules
