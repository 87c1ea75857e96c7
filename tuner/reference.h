// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a kernel of a workload must compute: inputs of two fills and the outputs that belong to
// them.
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
#include <string>

#include "base/result.h"
#include "base/target.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"
#include "runtime/kernel.h"
#include "tuner/clock.h"

namespace tw::tuner {

/// Inputs and expected outputs, by name, logical and row-major.
struct Fill {
  dsl::Arrays inputs, outputs;
  /// By output: |e| <= allowed * max |reference|. 0 where every operation is exact.
  std::map<std::string, double> allowed;
};

struct Reference {
  Fill integers, normal;
  double error = 0;     ///< of the plain kernel against the definition, the largest of all
  double plain_ns = 0;  ///< of one call of it on one thread, arrays packed within
};

/// Environment, "too much for this machine", where the arrays of a workload alone exceed the memory
/// that a worker may use: asked first, as any later step may break in a way of its own.
Status check_fits_memory(const dsl::Workload& workload, const Target& target);

/// What an accuracy class allows whatever the length of sums, relative to the largest element: room
/// for approximated functions and, where it is fast, for other algorithms. Where rounding in the
/// declared loops does more (dsl/rounding.h), that is allowed: compare_samples() says how much.
double tolerance_of(const dsl::Workload& workload);

/// How many elements of an output are evaluated: at least `least`, at most `most`, and no more of
/// them once the evaluations are used up.
struct SampleLimits {
  int most = 48, least = 2;
  int64_t evaluations = 8'000'000;
};

/// Sampled elements of an output against the definition.
struct Compared {
  int elements = 0;
  double error = 0;                ///< the largest, relative to the output's largest element
  double allowed = 0;              ///< in the same measure, on these inputs
  bool is_rounded = false;         ///< something had to be rounded
  double worst = 0, expected = 0;  ///< the element with the largest error, and its definition
  bool agrees() const { return error <= allowed; }
};
/// One an output. All elements of small outputs, else the largest and some at random, many of them
/// on a border.
Result<std::map<std::string, Compared>> compare_samples(const dsl::Workload& workload,
                                                        const dsl::Arrays& inputs,
                                                        const dsl::Arrays& outputs, Random& random,
                                                        const SampleLimits& limits = {});

/// One call of a kernel on logical arrays: its outputs.
using PlainCall = std::function<Result<dsl::Arrays>(const dsl::Arrays& inputs)>;

/// Of a kernel of the processor, on one thread. The pool must outlive the result.
PlainCall plain_call(runtime::Kernel kernel, runtime::ThreadPool& pool);

/// Runs the plain kernel on both fills. Invalid when it disagrees with the interpreter.
Result<Reference> make_reference(const dsl::Workload& workload, const PlainCall& plain,
                                 uint64_t seed, const Clock& clock);

/// max |a - b| / max |b| over an output; infinite where one is NaN and the other is not.
double relative_error(const dsl::Array& got, const dsl::Array& expected);

}  // namespace tw::tuner
