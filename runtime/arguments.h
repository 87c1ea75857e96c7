// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arguments of kernel calls, and the checks that they fit the kernel's description. Calls on the
// processor and calls on devices share this code. A failed check is a Usage error that names the
// argument. Free functions; thread-safe.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "runtime/artifact.h"
#include "runtime/strided.h"

namespace tw::runtime {

/// The caller's array for one argument, in logical (not storage) layout. Strides count elements and
/// may be negative; empty strides mean row-major.
struct Buffer {
  void* data = nullptr;
  DType dtype = Float32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides = {};
};

/// Makes a Usage error about the argument, such as "[kernel] input 'x': null pointer". `what` is
/// the part after the colon. If the argument is an output, the message says "output".
tl::unexpected<Error> wrong_argument(const ArgumentInfo& argument, const std::string& what);

/// Checks that `count`, the number of arrays that the caller gave, equals the number of arguments.
Status check_count(std::span<const ArgumentInfo> arguments, size_t count);

/// Makes a strided view of the array. Fails if the array is null although the argument has
/// elements, or if its type, rank, shape or number of strides does not fit the argument.
Result<StridedView> view_of(const ArgumentInfo& argument, const Buffer& buffer);

/// Checks that the arrays of two arguments share no memory. `written` are the bytes of the array of
/// `output`, and `range` the bytes of the array of `other`.
Status check_apart(const ArgumentInfo& output, const ByteRange& written, const ArgumentInfo& other,
                   const ByteRange& range);

/// Checks that no output shares memory with another argument. Inputs may share memory with each
/// other. Requires: one range for each argument.
Status check_overlaps(std::span<const ArgumentInfo> arguments, std::span<const ByteRange> ranges);

/// Runs all checks of this header for arrays in the processor's memory, and checks that no two
/// elements of an output share memory. Returns a view of each array.
Result<std::vector<StridedView>> views_of(std::span<const ArgumentInfo> arguments,
                                          std::span<const Buffer> buffers);

}  // namespace tw::runtime
