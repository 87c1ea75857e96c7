// SPDX-License-Identifier: Apache-2.0
#include "runtime/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace tw::runtime {

tl::unexpected<Error> wrong_argument(const ArgumentInfo& argument, const std::string& what) {
  return fail(ErrorCode::Usage,
              fmt::format("[kernel] {} '{}': {}", argument.is_output ? "output" : "input",
                          argument.name, what));
}

Status check_count(std::span<const ArgumentInfo> arguments, size_t count) {
  if (count == arguments.size()) return {};
  return fail(ErrorCode::Usage,
              fmt::format("[kernel] {} arrays given, expected {}: the inputs, then the outputs",
                          count, arguments.size()));
}

Status check_apart(const ArgumentInfo& output, const ByteRange& written, const ArgumentInfo& other,
                   const ByteRange& range) {
  if (!written.overlaps(range)) return {};
  return wrong_argument(
      output, fmt::format("shares memory with {} '{}': expected separate arrays; copy one of them",
                          other.is_output ? "output" : "input", other.name));
}

Status check_overlaps(std::span<const ArgumentInfo> arguments, std::span<const ByteRange> ranges) {
  for (size_t output = 0; output < ranges.size(); ++output) {
    if (!arguments[output].is_output) continue;
    for (size_t other = 0; other < ranges.size(); ++other)
      if (other < output || !arguments[other].is_output)
        TW_RETURN_IF_ERROR(
            check_apart(arguments[output], ranges[output], arguments[other], ranges[other]));
  }
  return {};
}

Result<StridedView> view_of(const ArgumentInfo& argument, const Buffer& buffer) {
  if (buffer.dtype != argument.dtype)
    return wrong_argument(argument,
                          fmt::format("dtype {} given, expected {}; convert the array",
                                      to_string(buffer.dtype), to_string(argument.dtype)));
  if (buffer.shape.size() != argument.shape.size())
    return wrong_argument(
        argument,
        fmt::format("rank {} given (shape {}), expected rank {} (shape {})", buffer.shape.size(),
                    buffer.shape, argument.shape.size(), argument.shape));
  if (buffer.shape != argument.shape)
    return wrong_argument(argument,
                          fmt::format("shape {} given, expected {}; kernels have fixed shapes",
                                      buffer.shape, argument.shape));
  if (!buffer.strides.empty() && buffer.strides.size() != buffer.shape.size())
    return wrong_argument(argument, fmt::format("{} strides given, expected {}",
                                                buffer.strides.size(), buffer.shape.size()));
  if (buffer.data == nullptr && logical_bytes(argument) > 0)
    return wrong_argument(argument,
                          fmt::format("null given, expected {} bytes", logical_bytes(argument)));
  return StridedView{static_cast<char*>(buffer.data), size_bytes(argument.dtype), buffer.shape,
                     buffer.strides.empty() ? row_major_strides(buffer.shape) : buffer.strides};
}

Result<std::vector<StridedView>> views_of(std::span<const ArgumentInfo> arguments,
                                          std::span<const Buffer> buffers) {
  TW_RETURN_IF_ERROR(check_count(arguments, buffers.size()));
  std::vector<StridedView> views;
  std::vector<ByteRange> ranges;
  for (size_t i = 0; i < buffers.size(); ++i) {
    TW_TRY(StridedView view, view_of(arguments[i], buffers[i]));
    const auto range = byte_range(view);
    if (!range)
      return wrong_argument(arguments[i],
                            fmt::format("strides {} reach outside memory", view.strides));
    if (arguments[i].is_output && !elements_are_distinct(view))
      return wrong_argument(arguments[i],
                            fmt::format("strides {} given for shape {}: its elements share memory",
                                        view.strides, view.shape));
    ranges.push_back(*range);
    views.push_back(std::move(view));
  }
  TW_RETURN_IF_ERROR(check_overlaps(arguments, ranges));
  return views;
}

}  // namespace tw::runtime
