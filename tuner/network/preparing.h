// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the preparation of a kernel (runtime/artifact.h) on this machine, for the constants of a
// network: by the kernel's own code where this machine can run it, else by the same loops compiled
// for this processor. Not thread-safe.

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "dsl/interpret.h"
#include "dsl/layout.h"
#include "dsl/workload.h"
#include "runtime/artifact.h"
#include "runtime/kernel.h"
#include "runtime/thread_pool.h"

namespace tw::tuner {

class Preparer {
 public:
  /// Requires: the artifact is a kernel of the workload and has a preparation. Errors of compile()
  /// for kernels of other machines.
  static Result<Preparer> make(const runtime::Artifact& artifact, const dsl::Workload& workload);

  /// The bytes of each buffer of the preparation, in its layout, with zeros where that rounds up.
  /// Takes one logical array for each of PreparationInfo::inputs.
  Result<std::vector<std::vector<std::byte>>> run(std::span<const dsl::Array* const> inputs,
                                                  runtime::ThreadPool& pool) const;

 private:
  Preparer(runtime::Kernel kernel, runtime::KernelInfo of, bool is_own)
      : kernel_(std::move(kernel)), of_(std::move(of)), is_own_(is_own) {}

  runtime::Kernel kernel_;
  runtime::KernelInfo of_;            ///< of the kernel that is prepared for
  bool is_own_ = true;                ///< kernel_ is that kernel; else its preparation, as a kernel
  std::vector<dsl::Layout> layouts_;  ///< of the inputs
};

}  // namespace tw::tuner
