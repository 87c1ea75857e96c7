// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sample of docs/api.md as a function. Its parameters are the names that the sample expects
// from the program around it.

#include "base/result.h"
#include "runtime/thread_pool.h"
#include "tuner/tune.h"

namespace tw::readme {

Status sample(const tuner::Environment& environment, const tuner::OnProgress& on_progress,
              float* a_data, float* b_data, float* c_data, runtime::ThreadPool& pool);

}  // namespace tw::readme
