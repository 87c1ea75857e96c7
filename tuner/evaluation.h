// SPDX-License-Identifier: Apache-2.0
#pragma once
// Computes the outputs of workloads for given inputs, without tuning or timing anything. Each
// workload is compiled once, with its default schedule and in the strict accuracy class, so without
// steps that change rounding. Not thread-safe.

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
  /// Requires: the target is a processor, and this machine can run its kernels.
  explicit Evaluator(Target target) : target_(std::move(target)) {}

  /// Runs the workload and returns its outputs by name, as row-major arrays of their logical
  /// shapes. `inputs` has an array of the right shape for each input of the workload. Fails with
  /// the errors of default_schedule(), compile() and Kernel::call().
  Result<dsl::Arrays> outputs(const dsl::Workload& workload, const dsl::Arrays& inputs);

 private:
  Result<const runtime::Kernel*> kernel_of(const dsl::Workload& workload);

  Target target_;
  std::map<std::string, runtime::Kernel> kernels_;  ///< kernels by the keys of their workloads
  runtime::ThreadPool pool_ = runtime::ThreadPool({.pin = false});
};

}  // namespace tw::tuner
