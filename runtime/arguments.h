// SPDX-License-Identifier: Apache-2.0
#pragma once
// What callers give to kernels, and whether it is what a kernel's description asks for: the same
// on the processor and on devices. A refusal is a Usage error that names the argument. Free
// functions; thread-safe.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "runtime/artifact.h"
#include "runtime/strided.h"

namespace tw::runtime {

/// A logical array of the caller's. Strides count elements and may be negative; empty: row-major.
struct Buffer {
  void* data = nullptr;
  DType dtype = Float32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides = {};
};

/// "[kernel] input 'x': what".
tl::unexpected<Error> wrong_argument(const ArgumentInfo& argument, const std::string& what);

/// One array for each argument.
Status check_count(const KernelInfo& info, size_t count);

/// The array, where type, rank, shape and strides are as the argument's and it is not null.
Result<StridedView> view_of(const ArgumentInfo& argument, const Buffer& buffer);

/// Outputs share memory with nothing; inputs may share with each other. Requires: a range for each
/// argument.
Status check_overlaps(const KernelInfo& info, std::span<const ByteRange> ranges);

/// All of that for arrays in the processor's memory.
Result<std::vector<StridedView>> views_of(const KernelInfo& info, std::span<const Buffer> buffers);

}  // namespace tw::runtime
