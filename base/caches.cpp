// SPDX-License-Identifier: Apache-2.0
#include "base/caches.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>

#include "base/text.h"

namespace tw {
namespace {

std::string first_word(const std::string& path) {
  std::ifstream in(path);
  std::string word;
  in >> word;
  return word;
}

/// Parses a size as sysfs writes it, such as "32768K". Returns 0 for any other text.
int64_t parse_kibibytes(std::string text) {
  if (!text.ends_with('K')) return 0;
  text.pop_back();
  return parse_int(text).value_or(0) << 10;
}

}  // namespace

std::array<int64_t, 3> cache_sizes(const std::string& folder) {
  std::array<int64_t, 3> sizes = {};
  for (int index = 0; index < 16; ++index) {
    const std::string cache = folder + "/index" + std::to_string(index) + "/";
    const int64_t level = parse_int(first_word(cache + "level")).value_or(0);
    if (level < 1 || level > 3 || first_word(cache + "type") == "Instruction") continue;
    sizes[static_cast<size_t>(level) - 1] = parse_kibibytes(first_word(cache + "size"));
  }
  if (sizes != std::array<int64_t, 3>{}) return sizes;
  const auto bytes = [](int name) { return std::max<int64_t>(0, sysconf(name)); };
  return {bytes(_SC_LEVEL1_DCACHE_SIZE), bytes(_SC_LEVEL2_CACHE_SIZE),
          bytes(_SC_LEVEL3_CACHE_SIZE)};
}

}  // namespace tw
