// SPDX-License-Identifier: Apache-2.0
#pragma once
// A loop whose iterations run on several threads, in any order.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace tw::tuner {

/// Calls f(0), ..., f(count - 1) on at most `workers` threads, of which the calling thread is one.
/// Returns when all calls are done. Requires: f does not throw.
template <typename F>
void for_each_index(size_t count, int workers, const F& f) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) f(i);
  };
  const size_t useful = std::min(count, static_cast<size_t>(workers));
  std::vector<std::jthread> others;
  for (size_t i = 1; i < useful; ++i) others.emplace_back(work);
  work();
}

}  // namespace tw::tuner
