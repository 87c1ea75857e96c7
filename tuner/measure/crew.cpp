// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/crew.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace tw::tuner {

Crew::Crew(int threads, std::function<void(size_t)> step)
    : count_(threads), step_(std::move(step)) {}

Crew::~Crew() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
}

Status Crew::start(std::string_view what) {
  try {
    for (size_t i = 1; i < static_cast<size_t>(count_); ++i)
      threads_.emplace_back([this, i] {
        while (!stop_) step_(i);
      });
  } catch (const std::system_error& refused) {
    return fail(ErrorCode::Environment, fmt::format("[{}] {} threads: {}; allow more or use fewer",
                                                    what, count_, refused.what()));
  }
  return {};
}

std::vector<double> Crew::rates(const std::function<int64_t()>& done, const Clock& clock,
                                int64_t budget_ns) const {
  const int64_t window_ns = std::max<int64_t>(budget_ns / 10, 1);
  std::vector<double> rates;
  const int64_t start = clock();
  for (int64_t from = start; from - start < budget_ns;) {
    const int64_t before = done();
    int64_t now;
    do {
      step_(0);
      now = clock();
    } while (now - from < window_ns);
    rates.push_back(static_cast<double>(done() - before) / static_cast<double>(now - from));
    from = now;
  }
  return rates;
}

}  // namespace tw::tuner
