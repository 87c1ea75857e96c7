// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides if the outputs of a kernel are right, by rules that do not depend on where the kernel
// ran.

#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "db/record.h"
#include "tuner/measure/reference.h"

namespace tw::tuner {

struct Verdict {
  db::TrialStatus status = db::TrialStatus::Ok;
  std::string reason;
  double error = 0;  ///< error on the normal fill, relative to its largest element
};

tl::unexpected<Verdict> rejected(db::TrialStatus status, std::string reason);

/// The outputs of a run, or the verdict that says why there are none.
using Outputs = tl::expected<dsl::Arrays, Verdict>;

/// True if a run left the same outputs as the run before, byte by byte; or the verdict that says
/// why the run left no outputs.
using Repeated = tl::expected<bool, Verdict>;

/// The runs whose outputs are judged. Integers and RoundedIntegers run on the integer fill:
/// Integers allows the error of the declared operations, RoundedIntegers the tolerance. Normal runs
/// on N(0, 1).
enum class Pass { Integers, RoundedIntegers, Normal };
const Fill& fill_of(const Reference& reference, Pass pass);
/// The error that the pass allows for an output, relative to the output's largest element.
double allowed_error(const Reference& reference, Pass pass, const std::string& output);
/// RoundedIntegers if the schedule, given as text, changes operations by an algorithm; else
/// Integers.
Pass pass_on_integers(const std::string& schedule);

/// Judges a kernel by three runs. On integers the outputs must agree bit by bit if the operator is
/// exact and the schedule keeps its operations. On N(0, 1) they must agree within the tolerance.
/// The third run, `repeat`, is on N(0, 1) again and must leave the same outputs. Each run has a
/// different poison in all memory that the kernel has to write before it reads. `run` compares the
/// outputs of a pass with the reference.
Verdict judge(const std::string& schedule, const std::function<Verdict(Pass pass)>& run,
              const std::function<Repeated()>& repeat);

/// Returns the relative_error() of the output with that name, or the verdict that says why it has
/// none.
using ErrorOf = std::function<tl::expected<double, Verdict>(const std::string& output)>;

/// Compares outputs with the reference by their errors.
Verdict compare(const Reference& reference, Pass pass, const ErrorOf& error_of);
Verdict compare(const Reference& reference, Pass pass, const dsl::Arrays& outputs);

}  // namespace tw::tuner
