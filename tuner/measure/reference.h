// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reference results by which the kernels of a workload are verified: two sets of inputs, called
// fills, and the outputs that a kernel must compute from them.
//
// The outputs are computed by the plain kernel, a kernel for the processor whose schedule has the
// loops as declared, without tiling or reordering. If it cannot be built, the kernel of the default
// schedule on the measured device is used instead. The interpreter checks sampled elements of these
// outputs in double.
//
// The integer fill has small integers. On it, every correct order of the operations of an exact
// operator gives the same bits. The normal fill has numbers from N(0, 1), by which errors are
// measured. Its inputs of integers of up to 16 bits are drawn from all values of their type
// instead, and inputs that serve as indices are drawn from the range of the indices. Operators
// without floats must be exact on this fill too.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"
#include "runtime/kernel.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// One set of inputs and the expected outputs, by name, as row-major arrays of their logical
/// shapes.
struct Fill {
  dsl::Arrays inputs, outputs;
  /// Allowed error of each output, relative to the output's largest element: |error| <= allowed *
  /// max |reference|. It is 0 on the integer fill if no operation rounds, and on both fills if the
  /// workload computes only in integers.
  std::map<std::string, double> allowed;
  /// Allowed error of each output for a kernel whose algorithm (schedules::algorithm_text), such as
  /// Winograd's, rounds more than the declared operations. Unlike `allowed` it is not 0 if the
  /// declared operations are exact.
  std::map<std::string, double> tolerated;
  /// Outputs for which some intermediate values overflow (dsl/rounding.h).
  std::set<std::string> overflowing;
  /// The elements that are not compared, for each output with undefined elements
  /// (dsl::Rounded::is_undefined): a flag for each element in row-major order, true if it is not
  /// compared. The undefined elements are not compared. If the output is too large to evaluate all
  /// elements by the definition, the elements that were not evaluated are not compared either.
  std::map<std::string, std::vector<bool>> left_out;
};

struct Reference {
  Fill integers, normal;
  double error = 0;     ///< largest error of the plain kernel, compared with the definition
  double plain_ns = 0;  ///< time of one call of the plain kernel on one thread, with packing
};

/// Checks that the arrays of the workload fit into the memory that a worker may use. Fails with
/// Environment if they do not. Call it before other functions of this file, whose messages would
/// not name this cause.
Status check_fits_memory(const dsl::Workload& workload, const Target& target);

/// Checks that the workload can be tuned. Fails with Unsupported if it computes in f64 and the
/// target is a GPU, and with the error of check_fits_memory(). If the loops as declared are
/// illegal, fails with the error of lowering, for instance because a read is not proved to stay
/// inside of its tensor.
Status check_tunable(const dsl::Workload& workload, const Target& target);

/// Returns the constant part of the error that the workload's accuracy class allows, relative to
/// the largest element of an output. For f32 it is 4e-6 in the class `strict`. This tolerance
/// leaves room for approximated functions and, in the class `fast`, for other algorithms. It does
/// not grow with the length of sums: compare_samples() allows more if rounding in the declared
/// loops makes a larger error (dsl/rounding.h). It is 0 if the workload computes only in integers.
double tolerance_of(const dsl::Workload& workload);

/// Limits how many elements of an output compare_samples() evaluates. It evaluates at most `most`
/// elements of each output. Once it has evaluated more than `evaluations` expressions for all
/// outputs together, it evaluates only the first `least` elements of each remaining output.
struct SampleLimits {
  int most = 48, least = 2;
  int64_t evaluations = 8'000'000;
};

/// Result of comparing sampled elements of an output with the definition.
struct Compared {
  int elements = 0;
  double error = 0;    ///< largest error, relative to the output's largest element
  double allowed = 0;  ///< largest error that is allowed on these inputs, relative in the same way
  bool is_rounded = false;  ///< true if some operation rounded its result or overflowed
  /// True if intermediate values overflow in some sampled element. Such elements are not compared.
  bool overflows = false;
  /// True if some sampled element is undefined (dsl::Rounded). Such elements are not compared. The
  /// errors are then relative to the largest of the sampled elements that are compared.
  bool has_undefined = false;
  /// The value of the element with the largest error, and the correct value of that element.
  double worst = 0, expected = 0;
  bool agrees() const { return error <= allowed; }
};
/// Compares every output with the definition of the workload, and returns the results by the names
/// of the outputs. All elements of small outputs are compared. Of a large output, the largest
/// element, the first element that is not finite, and random elements are compared; many of the
/// random elements lie at a border of the output.
Result<std::map<std::string, Compared>> compare_samples(const dsl::Workload& workload,
                                                        const dsl::Arrays& inputs,
                                                        const dsl::Arrays& outputs, Random& random,
                                                        const SampleLimits& limits = {});

/// A function that calls a kernel once on logical arrays and returns the outputs.
using PlainCall = std::function<Result<dsl::Arrays>(const dsl::Arrays& inputs)>;

/// Returns the PlainCall of a kernel for the processor, on one thread. The pool must outlive the
/// function.
PlainCall plain_call(runtime::Kernel kernel, runtime::ThreadPool& pool);

/// Returns the element of `fill.left_out` for this output; null if no element is left out.
const std::vector<bool>* left_out_of(const Fill& fill, const std::string& output);

/// Makes the reference by running `plain`, the plain kernel, on both fills. The fills are equal in
/// every run, so that all runs accept the same kernels. Fails with Invalid if the plain kernel
/// disagrees with the interpreter.
Result<Reference> make_reference(const dsl::Workload& workload, const PlainCall& plain,
                                 const Clock& clock);

/// Returns max |got - expected| / max |expected| over the elements of an output, where the divisor
/// is the largest finite magnitude. Corresponding elements that are both NaN or the same infinity
/// do not differ. The result is infinite if exactly one of two elements is NaN, or if exactly one
/// is infinite. With `overflows`, elements whose expected value is not finite are left out, and an
/// infinite value in `got` counts as the largest number of its type. `left_out`, if it is not null,
/// has a flag for each element; elements whose flag is true are left out (Fill::left_out).
double relative_error(const dsl::Array& got, const dsl::Array& expected, bool overflows = false,
                      const std::vector<bool>* left_out = nullptr);

}  // namespace tw::tuner
