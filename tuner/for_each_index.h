// SPDX-License-Identifier: Apache-2.0
#pragma once
// A loop whose iterations run on several threads, in any order.

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace tw::tuner {

/// Calls f(0), ..., f(count - 1), at most `workers` at once, the calling thread among them; returns
/// when all are done. Requires: f throws nothing.
template <typename F>
void for_each_index(size_t count, int workers, const F& f) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) f(i);
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < workers; ++i) others.emplace_back(work);
  work();
}

}  // namespace tw::tuner
