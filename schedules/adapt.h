// SPDX-License-Identifier: Apache-2.0
#pragma once
// Applies a schedule to another compute than the one that it was written for, such as the same
// operator with another shape. A factor larger than its loop's extent becomes the extent. A split
// whose tail is `exact` gets the tail `guard` if the factor does not divide the extent. A step that
// does not apply is left out, and the reason is recorded. Free functions; thread-safe.

#include <string>
#include <vector>

#include "dsl/compute.h"
#include "schedules/schedule.h"
#include "schedules/step.h"

namespace tw::schedules {

struct AdaptedStep {
  std::string given;  ///< the step as it was written
  /// the step in the new schedule, with derived names of loops (loop_names.h); empty if it was left
  /// out
  std::string applied;
  bool changed = false;
  /// the reason why the step was changed or left out, or a remark on its tail ("the last tile has 2
  /// of 4 iterations"); may be empty
  std::string note;
};

struct Adapted {
  Schedule schedule;
  std::vector<AdaptedStep> steps;

  /// True if no step was changed or left out.
  bool is_unchanged() const;
};

/// Applies the steps one after the other to the compute. The resulting schedule may be illegal: its
/// program() then returns the error.
Adapted adapt(const std::vector<Step>& steps, const dsl::Compute& compute);

/// Returns one line for each step that has a note: "split out n 64 -> split out n 10: the extent is
/// 10", "left out: vectorize out z: stage 'out' has no loop 'z'".
std::vector<std::string> notes_of(const Adapted& adapted);

}  // namespace tw::schedules
