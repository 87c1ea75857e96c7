// SPDX-License-Identifier: Apache-2.0
#pragma once
// A schedule applied to another compute than it was written for, such as the same operator at
// another shape. Factors beyond an extent become the extent, exact tails that do not divide become
// guards, and steps that do not apply are left out, each with the reason. Free functions;
// thread-safe.

#include <string>
#include <vector>

#include "dsl/compute.h"
#include "schedules/schedule.h"
#include "schedules/step.h"

namespace tw::schedules {

struct AdaptedStep {
  std::string given;    ///< the step as it was written
  std::string applied;  ///< the step of the new schedule, canonical; empty: it was left out
  bool changed = false;
  std::string note;  ///< why it changed or was left out, or what its tail leaves; may be empty
};

struct Adapted {
  Schedule schedule;
  std::vector<AdaptedStep> steps;

  /// True if every step was applied as it was written.
  bool is_unchanged() const;
};

/// Applies the steps one after the other. Whether the result is legal, its program() says.
Adapted adapt(const std::vector<Step>& steps, const dsl::Compute& compute);

/// A line for each step that has a note: "split out n 64 -> split out n 10: the extent is 10",
/// "left out: vectorize out z: stage 'out' has no loop 'z'".
std::vector<std::string> notes_of(const Adapted& adapted);

}  // namespace tw::schedules
