// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prepared stages (the step prepare) read only constants, so they are computed once, when constants
// are loaded. lower() makes a separate program of them, Program::preparation, whose results are
// arguments of the kernel.

#include <string>

#include "base/result.h"
#include "schedules/nest.h"

namespace tw::schedules {

/// Checks that every prepared stage has a nest of its own, is no output, and reads only constant
/// inputs, other prepared stages and stages that are placed inside of them. Invalid, naming the
/// stage and the tensor that it reads. lower() calls this again, because steps after `prepare` may
/// change the stage.
Status check_prepared(const Nest& nest);

/// True if the stage may be prepared, i.e. if check_prepared() would succeed with the stage
/// prepared.
bool can_be_prepared(const Nest& nest, const StageNest& stage);

/// True if the tensor is an argument of the kernel: an input, or the result of a prepared stage.
bool is_kernel_argument(const Nest& nest, const std::string& tensor);

}  // namespace tw::schedules
