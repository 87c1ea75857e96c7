// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides if the outputs of a kernel are right. The rules do not depend on where the kernel ran.

#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "db/record.h"
#include "tuner/measure/reference.h"

namespace tw::tuner {

struct Verdict {
  db::TrialStatus status = db::TrialStatus::Ok;
  std::string reason;  ///< why the kernel was rejected; empty if the status is Ok
  double error = 0;    ///< error on the normal fill, relative to its largest element
};

tl::unexpected<Verdict> rejected(db::TrialStatus status, std::string reason);

/// The outputs of a run. If the run left no valid outputs, the verdict that says why.
using Outputs = tl::expected<dsl::Arrays, Verdict>;

/// True if a run left the same outputs as the run before, byte by byte. If the run left no valid
/// outputs, the verdict that says why.
using Repeated = tl::expected<bool, Verdict>;

/// Says which inputs a run reads and which error it may have. Integers and RoundedIntegers read the
/// integer fill (Reference::integers). Integers allows the error Fill::allowed; RoundedIntegers,
/// which is for algorithms that round, allows Fill::tolerated. Normal reads the N(0, 1) fill and
/// allows Fill::allowed.
enum class Pass { Integers, RoundedIntegers, Normal };
const Fill& fill_of(const Reference& reference, Pass pass);
/// Returns the largest error that `pass` allows for an output, relative to the output's largest
/// element.
double allowed_error(const Reference& reference, Pass pass, const std::string& output);
/// Returns the pass for the integer fill: RoundedIntegers if the schedule, which is given as text,
/// replaces the declared operations by those of an algorithm such as Winograd's; else Integers.
Pass pass_on_integers(const std::string& schedule);

/// Judges a kernel by three runs. Before each run, `run` and `repeat` fill all memory that the
/// kernel must write before it reads it, with another poison each time. The runs are:
/// - run(pass_on_integers(schedule)) runs the kernel on integers and compares its outputs with the
///   reference. They must agree bit by bit if the operator is exact and the schedule keeps its
///   operations.
/// - run(Pass::Normal) does the same on N(0, 1) inputs, where the outputs must agree within the
///   tolerance.
/// - repeat() runs the kernel on the N(0, 1) inputs again, and says if it left the same outputs as
///   the second run.
///
/// Returns the verdict of the first run that fails, or Nondeterministic if the last two runs
/// differ.
Verdict judge(const std::string& schedule, const std::function<Verdict(Pass pass)>& run,
              const std::function<Repeated()>& repeat);

/// Returns the relative_error() of the output with that name. If there is no error because the run
/// left no valid outputs, returns the verdict that says why.
using ErrorOf = std::function<tl::expected<double, Verdict>(const std::string& output)>;

/// Compares outputs with the reference by their errors. The verdict is Ok with the largest error,
/// Wrong if an error is larger than allowed, or the verdict of `error_of`. The second function
/// computes the errors from arrays.
Verdict compare(const Reference& reference, Pass pass, const ErrorOf& error_of);
Verdict compare(const Reference& reference, Pass pass, const dsl::Arrays& outputs);

}  // namespace tw::tuner
