// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that take configurations as text. Most tests of a single strategy use them.

#include <gtest/gtest.h>

#include <string>

#include "dsl/workload.h"
#include "tests/schedules/spaces.h"

namespace tw::schedules {

inline Space space_of_workload(const std::string& key, const std::string& target) {
  const auto workload = dsl::parse_workload(key);
  EXPECT_TRUE(workload) << key << workload.error().message;
  return Space::derive(workload->compute, parse_target(target).value());
}

/// Returns the steps of a configuration, one per line. Checks that the configuration is allowed and
/// that its program is legal on the space's target.
inline std::string steps_of(const Space& space, const std::string& configuration) {
  const auto point = space.parse(configuration);
  if (!point) return "no configuration";
  EXPECT_EQ(space.to_string(*point), configuration);
  EXPECT_TRUE(space.allowed(*point)) << configuration;
  const Schedule schedule = space.schedule(*point);
  const auto program = schedule.program(limits_of(space.target()));
  EXPECT_TRUE(program) << configuration << "\n" << program.error().message;
  const std::string text = schedule.to_string();
  return text.substr(text.find('\n') + 1) + "\n";
}

/// True if a configuration is in the space and allowed.
inline bool allows(const Space& space, const std::string& configuration) {
  const auto point = space.parse(configuration);
  return point && space.allowed(*point);
}

/// True if one of 50 sampled points uses the strategy for a stage.
inline bool offers(const Space& space, const std::string& strategy) {
  Random random(1);
  for (int i = 0; i < 50; ++i)
    if (space.to_string(space.sample(random)).find(": " + strategy) != std::string::npos)
      return true;
  return false;
}

/// Returns `text` with one part of it replaced.
inline std::string with(std::string text, const std::string& part, const std::string& other) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), other);
}

}  // namespace tw::schedules
