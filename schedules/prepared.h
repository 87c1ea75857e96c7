// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prepared stages (the step prepare): they read constants only, so they are computed when constants
// are loaded. lower() makes a program of its own of them, Program::preparation, and their results
// are arguments of the kernel.

#include <string>

#include "base/result.h"
#include "schedules/nest.h"

namespace tw::schedules {

/// Invalid, naming the stage and what it reads, unless all prepared stages have a nest of their own
/// and read only constant inputs, other prepared stages and stages that are placed inside of them.
/// None may be an output. Steps after `prepare` may change the stage, so lower() checks again.
Status check_prepared(const Nest& nest);

/// True if the stage may be prepared: if check_prepared() would hold with it.
bool can_be_prepared(const Nest& nest, const StageNest& stage);

/// True if the tensor is an argument of the kernel: an input, or the result of a prepared stage.
bool is_kernel_argument(const Nest& nest, const std::string& tensor);

}  // namespace tw::schedules
