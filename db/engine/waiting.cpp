// SPDX-License-Identifier: Apache-2.0
#include "db/engine/waiting.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace tw::db {
namespace {

constexpr int64_t first_message_ms = 500;
constexpr int64_t message_every_ms = 5'000;
// A commit of a batch takes a few milliseconds, so a longer pause would only add to the wait.
constexpr int64_t longest_pause_ms = 4;

int64_t steady_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int64_t now_ms(const Waiting& waiting) { return waiting.now_ms ? waiting.now_ms() : steady_ms(); }

Deadline::Deadline(Waiting waiting, int64_t limit_ms) : waiting_(std::move(waiting)) {
  if (limit_ms > 0) at_ms_ = now_ms(waiting_) + limit_ms;
}

bool Deadline::has_passed() const { return at_ms_ != INT64_MAX && now_ms(waiting_) >= at_ms_; }

LockWait::LockWait(Waiting waiting, std::string what)
    : waiting_(std::move(waiting)), what_(std::move(what)) {
  if (!waiting_.now_ms) waiting_.now_ms = steady_ms;
  if (!waiting_.sleep_ms)
    waiting_.sleep_ms = [](int64_t ms) {
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    };
}

void LockWait::begin() {
  began_ms_ = waiting_.now_ms();
  next_message_ms_ = first_message_ms;
  pause_ms_ = 1;
}

bool LockWait::wait() {
  const int64_t waited_ms = waiting_.now_ms() - began_ms_;
  if (waited_ms >= waiting_.limit_ms) return false;
  if (waited_ms >= next_message_ms_ && waiting_.on_message) {
    waiting_.on_message(
        fmt::format("waiting for {}: another process is writing ({:.0f} s of {:.0f} s)", what_,
                    waited_ms / 1e3, waiting_.limit_ms / 1e3));
    next_message_ms_ = waited_ms + message_every_ms;
  }
  waiting_.sleep_ms(std::min(pause_ms_, waiting_.limit_ms - waited_ms));
  pause_ms_ = std::min(2 * pause_ms_, longest_pause_ms);
  return true;
}

}  // namespace tw::db
