// SPDX-License-Identifier: Apache-2.0
// Functions that peers share.

#include <fmt/format.h>

#include <cstring>

#include "bench/peers/peer.h"

namespace tw::bench {

Status check_no_epilogue(std::string_view peer, const dsl::Workload& workload) {
  for (const char* epilogue : {"bias", "residual", "relu"})
    if (const auto it = workload.attributes.find(epilogue);
        it != workload.attributes.end() && it->second != 0)
      return fail(ErrorCode::Unsupported,
                  fmt::format("[{}] {}: is compared without it", peer, epilogue));
  return {};
}

std::vector<std::byte> swapped(const std::vector<std::byte>& elements,
                               const std::array<int64_t, 3>& shape, size_t element_bytes) {
  const auto [outer, rows, columns] = shape;
  std::vector<std::byte> result(elements.size());
  const std::byte* from = elements.data();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c, from += element_bytes)
        std::memcpy(
            result.data() + static_cast<size_t>((o * columns + c) * rows + r) * element_bytes, from,
            element_bytes);
  return result;
}

}  // namespace tw::bench
