// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reference results of a workload, with which kernels are verified: the inputs of two fills, and
// the outputs that a kernel must compute from them.
//
// The outputs come from a plain schedule (loops as declared, no tiles, no reordering), compiled for
// the processor, or, where that cannot be, from the default schedule on the device that is
// measured; that kernel is itself checked against the interpreter, in double, on sampled elements.
// Integer fills make every correct order of an exact operator agree bit by bit; N(0, 1) fills
// measure the error (bytes take all their values there, and operators without floats must stay
// exact).

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/result.h"
#include "base/target.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"
#include "runtime/kernel.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// Inputs and expected outputs, by name, logical and row-major.
struct Fill {
  dsl::Arrays inputs, outputs;
  /// Allowed error of each output: |e| <= allowed * max |reference|. 0 where every operation is
  /// exact.
  std::map<std::string, double> allowed;
  /// Allowed error where the kernel's algorithm rounds (schedules::algorithm_text): the
  /// tolerance, also where the declared operations are exact.
  std::map<std::string, double> tolerated;
  /// Outputs on whose way values overflow (dsl/rounding.h).
  std::set<std::string> overflowing;
};

struct Reference {
  Fill integers, normal;
  double error = 0;     ///< largest error of the plain kernel against the definition
  double plain_ns = 0;  ///< one call of the plain kernel on one thread, including packing
};

/// Fails with Environment where the arrays of the workload alone exceed the memory that a worker
/// may use. Call it first: later steps fail with messages that do not name the cause.
Status check_fits_memory(const dsl::Workload& workload, const Target& target);

/// Fails as check_fits_memory() does, and with the error of the loops as declared where they are
/// illegal: where a read is not proved to stay inside of its tensor.
Status check_tunable(const dsl::Workload& workload, const Target& target);

/// The error that an accuracy class allows for any length of sums, relative to the largest element:
/// room for approximated functions and, in the class `fast`, for other algorithms. Where rounding
/// in the declared loops makes a larger error (dsl/rounding.h), compare_samples() allows that one.
double tolerance_of(const dsl::Workload& workload);

/// Number of elements of an output that are evaluated: `most`, or fewer, but at least `least`, once
/// more than `evaluations` points have been evaluated.
struct SampleLimits {
  int most = 48, least = 2;
  int64_t evaluations = 8'000'000;
};

/// Result of comparing sampled elements of an output with the definition.
struct Compared {
  int elements = 0;
  double error = 0;         ///< largest error, relative to the output's largest element
  double allowed = 0;       ///< largest error allowed on these inputs, likewise relative
  bool is_rounded = false;  ///< some operation had to round
  /// Some element overflows on its way: such elements count, and their values are not compared.
  bool overflows = false;
  double worst = 0, expected = 0;  ///< the element with the largest error, and its definition
  bool agrees() const { return error <= allowed; }
};
/// Compares every output, by name, on all elements of small outputs, else on the largest and on
/// random ones, many of them on a border.
Result<std::map<std::string, Compared>> compare_samples(const dsl::Workload& workload,
                                                        const dsl::Arrays& inputs,
                                                        const dsl::Arrays& outputs, Random& random,
                                                        const SampleLimits& limits = {});

/// Calls a kernel once, on logical arrays, and returns its outputs.
using PlainCall = std::function<Result<dsl::Arrays>(const dsl::Arrays& inputs)>;

/// Returns the PlainCall of a kernel for the processor, on one thread. The pool must outlive the
/// result.
PlainCall plain_call(runtime::Kernel kernel, runtime::ThreadPool& pool);

/// Runs the plain kernel on both fills, which are those of every run: what one run accepts, another
/// one does. Invalid when it disagrees with the interpreter.
Result<Reference> make_reference(const dsl::Workload& workload, const PlainCall& plain,
                                 const Clock& clock);

/// max |a - b| / max |b| over an output; infinite where one is NaN and the other is not.
/// Where the expected values overflow, those that are not finite are left out, and an infinite
/// value counts as the largest number of its type.
double relative_error(const dsl::Array& got, const dsl::Array& expected, bool overflows = false);

}  // namespace tw::tuner
