// SPDX-License-Identifier: Apache-2.0
#pragma once
// Strided views of arrays: their extent in memory, and copies to and from contiguous arrays.
// Strides count elements and may be negative or zero. Free functions; thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tw::runtime {

struct StridedView {
  char* data = nullptr;
  int64_t element_bytes = 1;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  ///< one for each element of shape
};

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape);

/// The elements lie one behind the other, in row-major order. Strides of extents 0 and 1 do not
/// matter.
bool is_contiguous(std::span<const int64_t> shape, std::span<const int64_t> strides);
bool is_contiguous(const StridedView& view);

/// True only if surely no two elements share memory. Requires: byte_range(view).
bool elements_are_distinct(const StridedView& view);

/// Bytes [begin, end) that the elements lie in; nullopt where that leaves the address space.
struct ByteRange {
  uint64_t begin = 0, end = 0;
  bool overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};
std::optional<ByteRange> byte_range(const StridedView& view);

void gather(const StridedView& from, char* contiguous);
void scatter(const char* contiguous, const StridedView& to);

}  // namespace tw::runtime
