// SPDX-License-Identifier: Apache-2.0
#pragma once
// Clocks of tests that wait for databases.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "db/engine/waiting.h"

namespace tw::db {

/// Time that advances only by waiting, or when a test says so. Collects the messages that are given
/// meanwhile.
struct FakeTime {
  int64_t now_ms = 0;
  std::vector<std::string> messages;
  Waiting waiting(int64_t limit_ms) {
    return {.limit_ms = limit_ms,
            .now_ms = [this] { return now_ms; },
            .sleep_ms = [this](int64_t ms) { now_ms += ms; },
            .on_message = [this](std::string_view text) { messages.emplace_back(text); }};
  }
};

}  // namespace tw::db
