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

/// The outputs of a run, or, if the run left none, the verdict that says why.
using Outputs = tl::expected<dsl::Arrays, Verdict>;

/// True if a run left the same outputs as the run before, byte by byte. If the run left no outputs,
/// the verdict that says why.
using Repeated = tl::expected<bool, Verdict>;

/// The inputs of a run, and the error that it may have. Integers and RoundedIntegers use the
/// integer fill (Reference::integers): Integers allows Fill::allowed, and RoundedIntegers allows
/// Fill::tolerated, for algorithms that round. Normal uses the N(0, 1) fill.
enum class Pass { Integers, RoundedIntegers, Normal };
const Fill& fill_of(const Reference& reference, Pass pass);
/// The largest error that `pass` allows for an output, relative to the output's largest element.
double allowed_error(const Reference& reference, Pass pass, const std::string& output);
/// RoundedIntegers if the schedule, which is given as text, replaces the declared operations by
/// those of an algorithm; else Integers.
Pass pass_on_integers(const std::string& schedule);

/// Judges a kernel by three runs, with different poison in all memory that the kernel has to write
/// before it reads it. `run(pass)` runs the kernel and compares its outputs with the reference. It
/// is called for integers, where the outputs must agree bit by bit if the operator is exact and the
/// schedule keeps its operations, and for N(0, 1), where they must agree within the tolerance.
/// `repeat` is the third run. It has the same N(0, 1) inputs, and says if it left the same outputs
/// as the second run.
Verdict judge(const std::string& schedule, const std::function<Verdict(Pass pass)>& run,
              const std::function<Repeated()>& repeat);

/// Returns the relative_error() of the output with that name. If the output has no error because
/// the run left no outputs, returns the verdict that says why.
using ErrorOf = std::function<tl::expected<double, Verdict>(const std::string& output)>;

/// Compares outputs with the reference by their errors. The verdict is Ok with the largest error,
/// Wrong if an error is larger than allowed, or the verdict of `error_of`.
Verdict compare(const Reference& reference, Pass pass, const ErrorOf& error_of);
Verdict compare(const Reference& reference, Pass pass, const dsl::Arrays& outputs);

}  // namespace tw::tuner
