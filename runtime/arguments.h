// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arguments of kernel calls, and checks that they fit the kernel's description; the processor and
// devices share them. A failed check is a Usage error that names the argument. Free functions;
// thread-safe.

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

/// Checks that there is one array for each argument.
Status check_count(std::span<const ArgumentInfo> arguments, size_t count);

/// A view of the array. Fails if it is null or its type, rank, shape or strides do not fit the
/// argument.
Result<StridedView> view_of(const ArgumentInfo& argument, const Buffer& buffer);

/// Checks that the output shares no memory with the other array.
Status check_apart(const ArgumentInfo& output, const ByteRange& written, const ArgumentInfo& other,
                   const ByteRange& range);

/// Checks that no output shares memory with another array; inputs may share memory with each other.
/// Requires: one range for each argument.
Status check_overlaps(std::span<const ArgumentInfo> arguments, std::span<const ByteRange> ranges);

/// Runs all these checks for arrays in the processor's memory and returns their views.
Result<std::vector<StridedView>> views_of(std::span<const ArgumentInfo> arguments,
                                          std::span<const Buffer> buffers);

}  // namespace tw::runtime
