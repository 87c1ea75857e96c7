// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rules by which the outputs of a kernel are judged right or wrong, wherever the kernel ran.

#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "db/record.h"
#include "tuner/measure/reference.h"

namespace tw::tuner {

struct Verdict {
  db::TrialStatus status = db::TrialStatus::Ok;
  std::string reason;
  double error = 0;  ///< of the normal fill, relative to its largest element
};

tl::unexpected<Verdict> rejected(db::TrialStatus status, std::string reason);

/// Outputs of a run, or the verdict that says why there are none.
using Outputs = tl::expected<dsl::Arrays, Verdict>;

/// True if a run left the same outputs as the run before, byte by byte; or the verdict that says
/// why it left none.
using Repeated = tl::expected<bool, Verdict>;

/// The runs whose outputs are judged: on integers and on N(0, 1). Rounded integers are the same
/// integers, compared within the tolerance.
enum class Pass { Integers, RoundedIntegers, Normal };
const Fill& fill_of(const Reference& reference, Pass pass);
/// The error that the pass allows for an output, relative to its largest element.
double allowed_error(const Reference& reference, Pass pass, const std::string& output);
/// RoundedIntegers if the schedule, given as text, changes operations; else Integers.
Pass pass_on_integers(const std::string& schedule);

/// Integers must agree bit by bit where the operator is exact and the schedule keeps its
/// operations, N(0, 1) within the tolerance; that run is repeated, and must leave the same outputs.
/// Each of the three holds other poison in all memory that it has to write before it reads. `run`
/// compares what it left.
Verdict judge(const std::string& schedule, const std::function<Verdict(Pass pass)>& run,
              const std::function<Repeated()>& repeat);

/// The relative_error() of an output, by name, or the verdict that says why it has none.
using ErrorOf = std::function<tl::expected<double, Verdict>(const std::string& output)>;

/// Outputs against the reference's, by their errors.
Verdict compare(const Reference& reference, Pass pass, const ErrorOf& error_of);
Verdict compare(const Reference& reference, Pass pass, const dsl::Arrays& outputs);

}  // namespace tw::tuner
