// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices/tensor_map.h"

#include <fmt/format.h>

#include <algorithm>

namespace tw::runtime {
namespace {

constexpr size_t most_dimensions = 5;
constexpr int64_t most_box = 256, unit_bytes = 16;
constexpr int64_t most_extent = int64_t{1} << 32, most_stride = int64_t{1} << 40;

}  // namespace

Status check_tensor_map(const TensorMap& map) {
  const auto invalid = [](const std::string& why) {
    return fail(ErrorCode::Invalid, fmt::format("[tensor map] {}", why));
  };
  const size_t rank = map.extents.size();
  if (rank < 1 || rank > most_dimensions || map.strides.size() + 1 != rank ||
      map.box.size() != rank)
    return invalid(
        fmt::format("{} extents, {} strides and {} sizes of a box: expected 1 to {}, "
                    "one fewer, and as many",
                    rank, map.strides.size(), map.box.size(), most_dimensions));
  if (map.argument < 0 || map.offset < 0 || map.offset % unit_bytes != 0)
    return invalid(fmt::format("byte {} of argument {}: expected a multiple of {} of an argument",
                               map.offset, map.argument, unit_bytes));
  for (const int64_t extent : map.extents)
    if (extent < 1 || extent > most_extent)
      return invalid(fmt::format("the extent {}: expected 1 to {}", extent, most_extent));
  for (const int64_t stride : map.strides)
    if (stride < unit_bytes || stride % unit_bytes != 0 || stride >= most_stride)
      return invalid(fmt::format("a stride of {} bytes: expected a multiple of {}, below {}",
                                 stride, unit_bytes, most_stride));
  for (const int64_t box : map.box)
    if (box < 1 || box > most_box)
      return invalid(fmt::format("a box of {} elements: expected 1 to {}", box, most_box));
  const int64_t row = map.box[0] * size_bytes(map.type);
  if (row % unit_bytes != 0)
    return invalid(
        fmt::format("a box has rows of {} bytes: expected a multiple of {}", row, unit_bytes));
  const int swizzles[] = {0, 32, 64, 128};
  if (std::ranges::count(swizzles, map.swizzle) == 0)
    return invalid(fmt::format("a swizzle of {} bytes: expected 0, 32, 64 or 128", map.swizzle));
  if (map.swizzle > 0 && row > map.swizzle)
    return invalid(
        fmt::format("a box has rows of {} bytes: a swizzle of {} takes no more than "
                    "that",
                    row, map.swizzle));
  return {};
}

}  // namespace tw::runtime
