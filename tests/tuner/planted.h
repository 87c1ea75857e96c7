// SPDX-License-Identifier: Apache-2.0
#pragma once
// Starts planted_worker, the program that misbehaves on request, and asks it for a misdeed.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tuner/processes/process.h"

namespace tw::tuner {

inline constexpr int64_t millisecond_ns = 1'000'000;
inline constexpr int64_t second_ns = 1000 * millisecond_ns;

/// Far longer than any misdeed takes that is expected to end.
inline constexpr int64_t patience_ns = 60 * second_ns;

inline Process planted(std::vector<std::string> arguments, Clock clock = monotonic_clock()) {
  arguments.insert(arguments.begin(), TW_PLANTED_WORKER);
  auto process = Process::start({.argv = std::move(arguments)}, std::move(clock));
  if (!process) ADD_FAILURE() << process.error().message;
  return std::move(process).value();
}

inline Outcome ask(Process& worker, std::string_view deed, int64_t timeout_ns = patience_ns) {
  const Status sent = worker.send(deed);
  if (!sent) ADD_FAILURE() << sent.error().message;
  return worker.receive({monotonic_clock()() + timeout_ns});
}

/// Returns the outcome as text, for messages and comparisons.
inline std::string text(const Outcome& outcome) {
  if (const auto* reply = std::get_if<Reply>(&outcome)) return "reply: " + reply->bytes;
  if (std::holds_alternative<TimedOut>(outcome)) return "timed out";
  if (std::holds_alternative<Cancelled>(outcome)) return "cancelled";
  if (const auto* garbled = std::get_if<Garbled>(&outcome)) return "garbled: " + garbled->message;
  const auto& died = std::get<Died>(outcome);
  return "died: exit " + std::to_string(died.exit_code) + " signal " + std::to_string(died.signal) +
         " " + died.tail;
}

/// Expects that the worker has ended, can be restarted, and answers after that.
inline void expect_replaceable(Process& worker) {
  EXPECT_FALSE(worker.running());
  ASSERT_TRUE(worker.restart());
  EXPECT_EQ(text(ask(worker, "echo again")), "reply: again");
}

}  // namespace tw::tuner
