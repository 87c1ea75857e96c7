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
  std::vector<int64_t> strides;  ///< one for each dimension
};

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape);

/// True if the elements lie one after another, in row-major order. Strides of dimensions of extent
/// 0 or 1 do not matter.
bool is_contiguous(std::span<const int64_t> shape, std::span<const int64_t> strides);
bool is_contiguous(const StridedView& view);

/// True if the elements certainly share no memory. False does not prove the opposite: for some
/// views with distinct elements the result is false too. Requires: byte_range(view) is not nullopt.
bool elements_are_distinct(const StridedView& view);

/// The addresses of a view's elements, from their lowest byte (`begin`) to one past their highest
/// byte (`end`). byte_range() returns nullopt if an element lies outside of the address space.
struct ByteRange {
  uint64_t begin = 0, end = 0;
  bool overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};
std::optional<ByteRange> byte_range(const StridedView& view);

/// gather() copies the elements of a view to a contiguous array, in row-major order. scatter()
/// copies them back.
void gather(const StridedView& from, char* contiguous);
void scatter(const char* contiguous, const StridedView& to);

}  // namespace tw::runtime
