// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/packing.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/integer.h"

namespace tw::tuner {
namespace {

/// Calls visit(s, l) for each element of the storage, in the order of the storage. s is the
/// position of the element in the storage, and l its position in the row-major array, or -1 for
/// padding.
template <typename Visit>
void for_each_element(const dsl::Layout& layout, const std::vector<int64_t>& shape,
                      const Visit& visit) {
  const std::vector<int64_t> extents = layout.storage_shape(shape);
  const auto& parts = layout.parts();
  std::vector<int64_t> step(parts.size()), index(parts.size(), 0), at(shape.size(), 0);
  std::vector<int64_t> stride(shape.size(), 1), scale(shape.size(), 1);
  for (size_t d = shape.size(); d > 1; --d) stride[d - 2] = stride[d - 1] * shape[d - 1];
  for (size_t p = parts.size(); p > 0; --p) {
    const auto d = static_cast<size_t>(parts[p - 1].dim);
    step[p - 1] = scale[d];
    if (parts[p - 1].factor > 0) scale[d] *= parts[p - 1].factor;
  }
  int64_t elements = 1;
  for (const int64_t extent : extents) elements *= extent;
  // Along the innermost part of the layout both positions grow by constant steps, so this loop is
  // fast.
  const int64_t run = extents.back();
  const auto inner = static_cast<size_t>(parts.back().dim);
  const int64_t inner_stride = step.back() * stride[inner];
  for (int64_t first = 0; first < elements; first += run) {
    int64_t logical = 0;
    int64_t inside = ceil_div(std::max<int64_t>(shape[inner] - at[inner], 0), step.back());
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d != inner && at[d] >= shape[d]) inside = 0;
      logical += at[d] * stride[d];
    }
    inside = std::min(inside, run);
    for (int64_t i = 0; i < inside; ++i) visit(first + i, logical + i * inner_stride);
    for (int64_t i = inside; i < run; ++i) visit(first + i, -1);
    for (size_t p = parts.size() - 1; p > 0; --p) {
      const auto d = static_cast<size_t>(parts[p - 1].dim);
      at[d] += step[p - 1];
      if (++index[p - 1] < extents[p - 1]) break;
      at[d] -= step[p - 1] * extents[p - 1];
      index[p - 1] = 0;
    }
  }
}

/// Calls copy(size) with the size of an element as a constant, so that an element is copied by one
/// instruction.
template <typename Copy>
void with_size(DType type, const Copy& copy) {
  switch (size_bytes(type)) {
    case 1:
      return copy(std::integral_constant<size_t, 1>());
    case 2:
      return copy(std::integral_constant<size_t, 2>());
    case 4:
      return copy(std::integral_constant<size_t, 4>());
    default:
      TW_CHECK(size_bytes(type) == 8);
      return copy(std::integral_constant<size_t, 8>());
  }
}

}  // namespace

Result<dsl::Layout> layout_of(const runtime::ArgumentInfo& argument,
                              const dsl::Workload& workload) {
  if (argument.layout.empty())
    return dsl::Layout::row_major(static_cast<int>(argument.shape.size()));
  return dsl::Layout::parse(argument.layout, workload.compute.letters_of(argument.name));
}

size_t packed_bytes(const dsl::Layout& layout, const dsl::Array& logical) {
  int64_t elements = 1;
  for (const int64_t extent : layout.storage_shape(logical.shape)) elements *= extent;
  return static_cast<size_t>(elements * size_bytes(logical.type));
}

void pack(const dsl::Layout& layout, const dsl::Array& logical, std::byte* storage) {
  if (layout.is_row_major()) {
    std::memcpy(storage, logical.data.data(), logical.data.size());
    return;
  }
  with_size(logical.type, [&](auto size) {
    for_each_element(layout, logical.shape, [&](int64_t to, int64_t from) {
      std::byte* element = storage + static_cast<size_t>(to) * size;
      if (from < 0) {
        std::memset(element, 0, size);
      } else {
        std::memcpy(element, logical.data.data() + static_cast<size_t>(from) * size, size);
      }
    });
  });
}

void unpack(const dsl::Layout& layout, const std::byte* storage, dsl::Array& logical) {
  if (layout.is_row_major()) {
    std::memcpy(logical.data.data(), storage, logical.data.size());
    return;
  }
  with_size(logical.type, [&](auto size) {
    for_each_element(layout, logical.shape, [&](int64_t from, int64_t to) {
      if (to < 0) return;
      std::memcpy(logical.data.data() + static_cast<size_t>(to) * size,
                  storage + static_cast<size_t>(from) * size, size);
    });
  });
}

}  // namespace tw::tuner
