// SPDX-License-Identifier: Apache-2.0
#include "tests/ptx/layouts.h"

#include <fmt/format.h>

namespace tw::ptx {
namespace {

constexpr int64_t unit = 16;  // bytes of uint128_t, the unit in which CUTLASS counts

int64_t field(uint64_t bits, int first, int count) {
  return static_cast<int64_t>(bits >> first & ((uint64_t{1} << count) - 1));
}

}  // namespace

Result<MatrixDescriptor> decode_descriptor(uint64_t bits) {
  constexpr uint64_t fields = 0x3fff | uint64_t{0x3fff} << 16 | uint64_t{0x3fff} << 32 |
                              uint64_t{7} << 49 | uint64_t{3} << 62;
  if ((bits & ~fields) != 0)
    return fail(ErrorCode::Invalid,
                fmt::format("[descriptor] {:#018x} has bits that the format reserves", bits));
  constexpr int swizzles[] = {0, 128, 64, 32};
  MatrixDescriptor d;
  d.start = field(bits, 0, 14) * unit;
  d.leading = field(bits, 16, 14) * unit;
  d.stride = field(bits, 32, 14) * unit;
  d.base_offset = static_cast<int>(field(bits, 49, 3));
  d.swizzle = swizzles[field(bits, 62, 2)];
  if (d.base_offset != 0)
    return fail(ErrorCode::Invalid,
                fmt::format("[descriptor] {:#018x} has a base offset: expected a pattern that "
                            "begins at a multiple of its size",
                            bits));
  return d;
}

// These are the layouts in CUTLASS's notation, where T is the number of elements in 16 bytes:
//   K-major, no swizzle   ((8,m),(T,2)) : ((1T,SBO),(1,LBO))
//   K-major, swizzle S    ((8,m),(T,2)) : ((S/16 T,SBO),(1,T))
//   MN-major, no swizzle  ((T,1,m),(8,k)) : ((1,T,SBO),(1T,LBO))
//   MN-major, swizzle S   ((T,S/16,m),(8,k)) : ((1,T,LBO),(S/16 T,SBO))
int64_t element_address(const MatrixDescriptor& d, bool is_mn_major, int element_bytes, int64_t row,
                        int64_t term) {
  const int64_t elements = unit / element_bytes;
  const int64_t pitch = d.swizzle == 0 ? unit : d.swizzle;
  int64_t at = d.start;
  if (is_mn_major) {
    const int64_t neighbours = pitch / element_bytes;
    at += row % neighbours * element_bytes + term % 8 * pitch;
    at += row / neighbours * (d.swizzle == 0 ? d.stride : d.leading);
    at += term / 8 * (d.swizzle == 0 ? d.leading : d.stride);
  } else {
    at += row % 8 * pitch + row / 8 * d.stride;
    at += term % elements * element_bytes;
    at += term / elements * (d.swizzle == 0 ? d.leading : unit);
  }
  return swizzled_address(at, d.swizzle);
}

std::pair<int, int> accumulator_place(int thread, int i) {
  const int warp = thread / 32, group = thread % 32 / 4, within = thread % 4;
  return {16 * warp + group + i / 2 % 2 * 8, i / 4 * 8 + 2 * within + i % 2};
}

std::pair<int, int> a_fragment_place(int lane, int i, int j, int elements) {
  return {lane / 4 + i % 2 * 8, i / 2 * 4 * elements + lane % 4 * elements + j};
}

std::pair<int, int> b_fragment_place(int lane, int i, int j, int elements) {
  return {i * 4 * elements + lane % 4 * elements + j, lane / 4};
}

std::vector<BoxElement> box_elements(const std::vector<int64_t>& extents,
                                     const std::vector<int64_t>& strides,
                                     const std::vector<int64_t>& box, int element_bytes,
                                     int swizzle, const std::vector<int64_t>& first, int64_t to) {
  int64_t count = 1;
  for (const int64_t size : box) count *= size;
  std::vector<BoxElement> elements;
  for (int64_t i = 0; i < count; ++i) {
    BoxElement element{0, swizzled_address(to + i * element_bytes, swizzle)};
    int64_t rest = i;
    for (size_t d = 0; d < box.size(); ++d) {
      const int64_t at = first[d] + rest % box[d];
      rest /= box[d];
      if (at < 0 || at >= extents[d]) element.from = -1;
      if (element.from >= 0) element.from += at * strides[d];
    }
    elements.push_back(element);
  }
  return elements;
}

}  // namespace tw::ptx
