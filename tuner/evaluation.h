// SPDX-License-Identifier: Apache-2.0
#pragma once
// Computes workloads for their values, not for their time: by their default schedules, without
// changes of rounding, compiled once for each workload. Not thread-safe.

#include <map>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/target.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"
#include "runtime/kernel.h"
#include "runtime/thread_pool.h"

namespace tw::tuner {

class Evaluator {
 public:
  /// Requires: kernels for the target, a processor, run here.
  explicit Evaluator(Target target) : target_(std::move(target)) {}

  /// The outputs, by name, logical and row-major. Takes an array for each input, of its shape.
  /// Errors of default_schedule(), compile() and Kernel::call().
  Result<dsl::Arrays> outputs(const dsl::Workload& workload, const dsl::Arrays& inputs);

 private:
  Result<const runtime::Kernel*> kernel_of(const dsl::Workload& workload);

  Target target_;
  std::map<std::string, runtime::Kernel> kernels_;  ///< by the key of the workload
  runtime::ThreadPool pool_ = runtime::ThreadPool({.pin = false});
};

}  // namespace tw::tuner
