// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reference results by which the kernels of a workload are verified: two sets of inputs, called
// fills, and the outputs that a kernel must compute from them.
//
// The outputs are computed by a plain kernel for the processor, whose schedule has the loops as
// declared, without tiling or reordering. If that kernel cannot be built, the default schedule on
// the measured device computes them. The plain kernel is itself checked against the interpreter, in
// double, on sampled elements. On integer fills every correct order of an exact operator gives the
// same bits. N(0, 1) fills measure the error; in them bytes take all their values, and operators
// without floats must stay exact.

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

/// Inputs and expected outputs by name, as row-major arrays of their logical shapes.
struct Fill {
  dsl::Arrays inputs, outputs;
  /// Allowed error of each output, in |error| <= allowed * max |reference|. 0 if every operation is
  /// exact.
  std::map<std::string, double> allowed;
  /// Allowed error of each output if the kernel's algorithm rounds (schedules::algorithm_text): the
  /// tolerance, even if the declared operations are exact.
  std::map<std::string, double> tolerated;
  /// Outputs for which some intermediate values overflow (dsl/rounding.h).
  std::set<std::string> overflowing;
};

struct Reference {
  Fill integers, normal;
  double error = 0;     ///< largest error of the plain kernel, compared with the definition
  double plain_ns = 0;  ///< time of one call of the plain kernel on one thread, with packing
};

/// Environment if the arrays of the workload alone exceed the memory limit of a worker. Call it
/// first, as later steps fail with messages that do not name the cause.
Status check_fits_memory(const dsl::Workload& workload, const Target& target);

/// Checks that the workload can be tuned. Errors as check_fits_memory(). If the loops as declared
/// are illegal, because a read is not proved to stay inside of its tensor, the error says so.
Status check_tunable(const dsl::Workload& workload, const Target& target);

/// The error that an accuracy class allows for sums of any length, relative to the largest element.
/// It leaves room for approximated functions and, in the class `fast`, for other algorithms. If
/// rounding in the declared loops makes a larger error (dsl/rounding.h), compare_samples() allows
/// the larger one.
double tolerance_of(const dsl::Workload& workload);

/// Limits the number of elements of an output that are evaluated. It is `most`, unless more than
/// `evaluations` points have been evaluated before; then evaluation ends after at least `least`
/// elements.
struct SampleLimits {
  int most = 48, least = 2;
  int64_t evaluations = 8'000'000;
};

/// Result of comparing sampled elements of an output with the definition.
struct Compared {
  int elements = 0;
  double error = 0;         ///< largest error, relative to the output's largest element
  double allowed = 0;       ///< largest error allowed on these inputs, also relative
  bool is_rounded = false;  ///< true if some operation had to round
  /// True if intermediate values of some element overflow. The values of such elements are not
  /// compared.
  bool overflows = false;
  /// Value of the element with the largest error, and its correct value.
  double worst = 0, expected = 0;
  bool agrees() const { return error <= allowed; }
};
/// Compares every output with the definition, and returns the results by name. All elements of
/// small outputs are compared; for large outputs it is the largest element and random ones, many of
/// them at a border.
Result<std::map<std::string, Compared>> compare_samples(const dsl::Workload& workload,
                                                        const dsl::Arrays& inputs,
                                                        const dsl::Arrays& outputs, Random& random,
                                                        const SampleLimits& limits = {});

/// A function that calls a kernel once on logical arrays and returns the outputs.
using PlainCall = std::function<Result<dsl::Arrays>(const dsl::Arrays& inputs)>;

/// The PlainCall of a kernel for the processor, on one thread. The pool must outlive it.
PlainCall plain_call(runtime::Kernel kernel, runtime::ThreadPool& pool);

/// Makes the reference by running the plain kernel on both fills. The fills are the same in every
/// run, so that all runs accept the same kernels. Invalid if the plain kernel disagrees with the
/// interpreter.
Result<Reference> make_reference(const dsl::Workload& workload, const PlainCall& plain,
                                 const Clock& clock);

/// max |a - b| / max |b| over the elements of an output; infinite if one of two elements is NaN and
/// the other is not. With `overflows`, elements whose expected value is not finite are left out,
/// and an infinite value counts as the largest number of its type.
double relative_error(const dsl::Array& got, const dsl::Array& expected, bool overflows = false);

}  // namespace tw::tuner
