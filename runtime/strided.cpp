// SPDX-License-Identifier: Apache-2.0
#include "runtime/strided.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/integer.h"

namespace tw::runtime {
namespace {

int64_t element_count(const StridedView& view) { return checked_product(view.shape).value_or(0); }

template <int64_t Bytes>
void copy_row(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, Bytes);
}

void copy_elements(int64_t bytes, char* to, int64_t to_step, const char* from, int64_t from_step,
                   int64_t count) {
  if (bytes == 1) return copy_row<1>(to, to_step, from, from_step, count);
  if (bytes == 2) return copy_row<2>(to, to_step, from, from_step, count);
  if (bytes == 4) return copy_row<4>(to, to_step, from, from_step, count);
  return copy_row<8>(to, to_step, from, from_step, count);
}

// Calls row(address, number) for each row of the view along its last axis. `address` is that of the
// row's first element, `number` the index of the row in row-major order.
template <typename Row>
void for_each_row(const StridedView& view, const Row& row) {
  if (element_count(view) == 0) return;
  const size_t outer = view.shape.empty() ? 0 : view.shape.size() - 1;
  std::vector<int64_t> index(outer, 0);
  int64_t offset = 0;
  for (int64_t number = 0;; ++number) {
    row(view.data + offset * view.element_bytes, number);
    size_t axis = outer;
    while (axis > 0) {
      --axis;
      offset += view.strides[axis];
      if (++index[axis] < view.shape[axis]) break;
      offset -= view.strides[axis] * view.shape[axis];
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (outer == 0) return;
  }
}

}  // namespace

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * shape[i - 1];
  return strides;
}

bool is_contiguous(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return true;
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

bool is_contiguous(const StridedView& view) { return is_contiguous(view.shape, view.strides); }

bool elements_are_distinct(const StridedView& view) {
  if (element_count(view) == 0) return true;
  std::vector<std::pair<int64_t, int64_t>> axes;  // |stride|, extent
  for (size_t i = 0; i < view.shape.size(); ++i)
    if (view.shape[i] > 1) axes.push_back({std::abs(view.strides[i]), view.shape[i]});
  std::sort(axes.begin(), axes.end());
  // Distance from the first to the last element along the axes with smaller strides.
  int64_t reach = 0;
  for (const auto& [stride, extent] : axes) {
    if (stride <= reach) return false;
    reach += stride * (extent - 1);
  }
  return true;
}

std::optional<ByteRange> byte_range(const StridedView& view) {
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data));
  if (element_count(view) == 0) return ByteRange{};
  int64_t low = 0, high = view.element_bytes;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    const auto bytes = checked_mul(view.strides[i], view.element_bytes);
    const auto span = bytes ? checked_mul(*bytes, view.shape[i] - 1) : std::nullopt;
    const auto next = span ? checked_add(*span < 0 ? low : high, *span) : std::nullopt;
    if (!next) return std::nullopt;
    (*span < 0 ? low : high) = *next;
  }
  const auto begin = checked_add(address, low);
  const auto end = checked_add(address, high);
  if (!begin || !end || *begin < 0) return std::nullopt;
  return ByteRange{static_cast<uint64_t>(*begin), static_cast<uint64_t>(*end)};
}

void gather(const StridedView& from, char* contiguous) {
  const int64_t count = from.shape.empty() ? 1 : from.shape.back();
  const int64_t step = from.shape.empty() ? 0 : from.strides.back() * from.element_bytes;
  for_each_row(from, [&](const char* row, int64_t number) {
    copy_elements(from.element_bytes, contiguous + number * count * from.element_bytes,
                  from.element_bytes, row, step, count);
  });
}

void scatter(const char* contiguous, const StridedView& to) {
  const int64_t count = to.shape.empty() ? 1 : to.shape.back();
  const int64_t step = to.shape.empty() ? 0 : to.strides.back() * to.element_bytes;
  for_each_row(to, [&](char* row, int64_t number) {
    copy_elements(to.element_bytes, row, step, contiguous + number * count * to.element_bytes,
                  to.element_bytes, count);
  });
}

}  // namespace tw::runtime
