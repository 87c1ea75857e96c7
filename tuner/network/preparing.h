// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the preparation of a kernel on this machine, on the constants of a network. A preparation is
// the part of a kernel that reads only constants and runs once (runtime/artifact.h). If this
// machine cannot run the kernel, for instance because it is for a GPU, the preparation is compiled
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
  /// Loads the preparation of a kernel, or compiles it for this processor. Requires: the artifact
  /// is a kernel of the workload and has a preparation. Fails with the errors of
  /// runtime::Kernel::load() and, if the preparation has to be compiled, with those of
  /// codegen::compile().
  static Result<Preparer> make(const runtime::Artifact& artifact, const dsl::Workload& workload);

  /// Runs the preparation, and returns for each of its buffers the bytes in the buffer's layout,
  /// with zeros as padding. `inputs` has one row-major array for each element of
  /// PreparationInfo::inputs.
  Result<std::vector<std::vector<std::byte>>> run(std::span<const dsl::Array* const> inputs,
                                                  runtime::ThreadPool& pool) const;

 private:
  Preparer(runtime::Kernel kernel, runtime::KernelInfo of, bool is_own)
      : kernel_(std::move(kernel)), of_(std::move(of)), is_own_(is_own) {}

  runtime::Kernel kernel_;
  runtime::KernelInfo of_;  ///< the kernel whose preparation this is
  /// True if kernel_ is the kernel itself; false if kernel_ is only its preparation, compiled for
  /// this processor.
  bool is_own_ = true;
  std::vector<dsl::Layout> layouts_;  ///< layouts of the inputs
};

}  // namespace tw::tuner
