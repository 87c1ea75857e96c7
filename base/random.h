// SPDX-License-Identifier: Apache-2.0
#pragma once
// A seeded source of random numbers. Its sequence is the same with every standard library, unlike
// the sequence of std::uniform_int_distribution. Not thread-safe: use one Random per thread.

#include <cstdint>
#include <random>
#include <vector>

namespace tw {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  /// Returns a number that is uniform in [0, bound). Requires: bound > 0.
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(bound));
  }
  /// Returns a number that is uniform in [0, 1).
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return unit() < probability; }

  template <typename T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(below(static_cast<int64_t>(items.size())))];
  }

  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace tw
