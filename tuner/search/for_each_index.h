// SPDX-License-Identifier: Apache-2.0
#pragma once
// A loop whose iterations run on several threads, in any order.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace tw::tuner {

/// Calls f(0), ..., f(count - 1) on at most `workers` threads, of which the calling thread is one.
/// Fewer threads do the work if the system refuses one. Returns when all calls are done. If a call
/// throws, no further calls begin, and the first exception is thrown to the caller.
template <typename F>
void for_each_index(size_t count, int workers, const F& f) {
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::once_flag failed;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) f(i);
    } catch (...) {
      next = count;
      std::call_once(failed, [&] { failure = std::current_exception(); });
    }
  };
  const size_t useful = std::min(count, static_cast<size_t>(workers));
  std::vector<std::jthread> others;
  others.reserve(useful);
  try {
    while (others.size() + 1 < useful) others.emplace_back(work);
  } catch (const std::system_error&) {
  }
  work();
  others.clear();  // waits for them
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tw::tuner
